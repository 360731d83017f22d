(* Tolls by tangents.

   What a token pays is convex in its speed, so above each tangent; a tangent is named by the ratio G / N of D / (D - gap)
   at which it touches, any number at least. A band of h units of work, at a value of z each, has the toll (per unit of h)
   of where z meets the tangent, and what z is above its slope at the highest speed (`kappa`). Bands lie on each other: what
   is left of a token fills them from below (`band_fair`). *)
Require Import ZArith List Bool Lia Spec Referee Model Check Alone OneMachine Tolls.
Import ListNotations.
Open Scope Z_scope.

Lemma square_0 a : 0 <= a ^ 2. Proof. rewrite Z.pow_2_r. apply Z.square_nonneg. Qed.
Ltac pos := match goal with |- 0 <= _ ^ 2 => apply square_0 | |- 0 <= _ * _ => apply Z.mul_nonneg_nonneg; pos
  | |- 0 < _ * _ => apply Z.mul_pos_pos; pos | _ => assumption || lia end.
Lemma ceil_pos x q : 0 < q -> 0 <= x -> 0 <= ceil_div x q.
Proof. intros Q X. pose proof (ceil_mono 0 x q Q X) as H. now rewrite ceil_0 in H. Qed.
Section Tangent.
  Variables e gap least N : Z.
  Variable root : Z -> Z -> Z -> Z -> Z.  (* of price, fee, value and least length: any function *)
  Definition kappa price p z dmin := let G := if gap =? 0 then N else root price p z dmin in
    ceil_div (price * (1024 - e) * (G - N) ^ 2) (N ^ 2 * gap)
    + ceil_div (Z.max 0 (z * N ^ 2 - price * ((1024 - e) * G ^ 2 + e * N ^ 2) - p * N ^ 2)) (N ^ 2 * dmin).
  (* (height, value), the lowest first, which alone bears the fee *)
  Definition bands := list (Z * Z).
  Fixpoint gain_of (bs : bands) o := match bs with [] => 0 | (h, z) :: bs => z * Z.max 0 (Z.min o h) + gain_of bs (o - h) end.
  Fixpoint toll_of price fee (bs : bands) := match bs with [] => 0
    | (h, z) :: bs => h * kappa price (fee / h) z (Z.max least (gap + h)) + toll_of price 0 bs end.
  Definition right (bs : bands) := forallb (fun b => (0 <? fst b) && (0 <=? snd b)) bs.

  Hypothesis gap_0 : 0 <= gap.
  Hypothesis e_ok : 0 <= e <= 1024.
  Hypothesis NP : 0 < N.
  Lemma kappa_fair price p z dmin D h x : 0 <= price -> 0 <= x <= h -> 0 < D - gap -> gap + x <= D -> 0 < dmin -> x * dmin <= h * D ->
    (D - gap) * (z * x - D * (h * kappa price p z dmin)) <= price * x * ((1024 - e) * D + e * (D - gap)) + (D - gap) * (p * x).
  Proof.
    intros P X D0 GX DM XD. unfold kappa. set (G := if gap =? 0 then N else root price p z dmin).
    assert (gap = 0 -> G = N) as G0 by (unfold G; intros ->; reflexivity). clearbody G.
    set (s := price * ((1024 - e) * G ^ 2 + e * N ^ 2)). set (w := Z.max 0 (z * N ^ 2 - s - p * N ^ 2)).
    set (J := ceil_div w (N ^ 2 * dmin)). set (i := ceil_div (price * (1024 - e) * (G - N) ^ 2) (N ^ 2 * gap)).
    assert (0 < N ^ 2) as N2 by (apply Z.pow_pos_nonneg; lia). assert (0 <= w) as W0 by (unfold w; lia).
    assert (w <= N ^ 2 * dmin * J) as JW by (apply ceil_le; [pos|apply Z.le_refl]).
    assert (0 <= J) as J0 by (apply ceil_pos; pos). clearbody J.
    assert (x * w <= N ^ 2 * D * (h * J)) as A.
    { transitivity (x * (N ^ 2 * dmin * J)); [apply Z.mul_le_mono_nonneg_l; lia|]. replace (x * (N ^ 2 * dmin * J)) with (N ^ 2 * J * (x * dmin)) by ring.
      replace (N ^ 2 * D * (h * J)) with (N ^ 2 * J * (h * D)) by ring. apply Z.mul_le_mono_nonneg_l; [pos|exact XD]. }
    assert (x * (z * N ^ 2 - s - p * N ^ 2) <= N ^ 2 * D * (h * J)) as A2.
    { etransitivity; [|exact A]. apply Z.mul_le_mono_nonneg_l; [lia|unfold w; lia]. }
    (* the tangent, times the part of the price that is paid by speed *)
    assert (price * (1024 - e) * (D - gap) * (G ^ 2 * x) <= price * (1024 - e) * (N ^ 2 * (x * D)) + (D - gap) * (N ^ 2 * (D * (h * i)))) as T.
    { destruct (Z.eq_dec gap 0) as [Z0|Z0].
      - assert (i = 0) as ->. { unfold i. rewrite Z0, Z.mul_0_r. unfold ceil_div. now rewrite Zdiv_0_r. } rewrite (G0 Z0), Z0.
        replace (D - 0) with D by ring. lia.
      - assert (price * (1024 - e) * (G - N) ^ 2 <= N ^ 2 * gap * i) as I1 by (apply ceil_le; [pos|apply Z.le_refl]). clearbody i.
        assert (0 <= price * (1024 - e)) as C by pos. set (c := price * (1024 - e)) in *.
        assert (0 <= c * (x * (D * (G - N) - gap * G) ^ 2)) as SQ by pos.
        assert (0 <= D) as DP by lia.
        pose proof (Z.mul_le_mono_nonneg_l _ _ ((D - gap) * D * h) ltac:(pos) I1) as I2.
        apply (Z.mul_le_mono_pos_l _ _ gap); [lia|].
        rewrite Z.mul_add_distr_l. set (q1 := gap * (c * (N ^ 2 * (x * D)))). set (q2 := gap * (c * (D - gap) * (G ^ 2 * x))).
        assert (c * (x * (D * (G - N) - gap * G) ^ 2) + c * ((D - gap) * D * (h - x) * (G - N) ^ 2)
          = q1 - q2 + (D - gap) * D * h * (c * (G - N) ^ 2)) as E by (unfold q1, q2; ring).
        assert (0 <= c * ((D - gap) * D * (h - x) * (G - N) ^ 2)) as I4 by pos.
        replace ((D - gap) * D * h * (N ^ 2 * gap * i)) with (gap * ((D - gap) * (N ^ 2 * (D * (h * i))))) in I2 by ring.
        revert SQ E I4 I2. generalize (c * (x * (D * (G - N) - gap * G) ^ 2)) (c * ((D - gap) * D * (h - x) * (G - N) ^ 2))
          ((D - gap) * D * h * (c * (G - N) ^ 2)) (gap * ((D - gap) * (N ^ 2 * (D * (h * i))))) q1 q2. clear. lia. }
    apply (Z.mul_le_mono_pos_l _ _ (N ^ 2)); [exact N2|].
    pose proof (Z.mul_le_mono_nonneg_l _ _ (D - gap) ltac:(lia) A2) as A3. unfold s in A3.
    replace (N ^ 2 * ((D - gap) * (z * x - D * (h * (i + J))))) with ((D - gap) * (z * x * N ^ 2) - (D - gap) * (N ^ 2 * (D * (h * i))) - (D - gap) * (N ^ 2 * D * (h * J))) by ring.
    replace (N ^ 2 * (price * x * ((1024 - e) * D + e * (D - gap)) + (D - gap) * (p * x)))
      with (price * (1024 - e) * (N ^ 2 * (x * D)) + (D - gap) * (price * e * N ^ 2 * x) + (D - gap) * (p * N ^ 2 * x)) by ring.
    replace ((D - gap) * (x * (z * N ^ 2 - price * ((1024 - e) * G ^ 2 + e * N ^ 2) - p * N ^ 2))) with ((D - gap) * (z * x * N ^ 2)
      - price * (1024 - e) * (D - gap) * (G ^ 2 * x) - (D - gap) * (price * e * N ^ 2 * x) - (D - gap) * (p * N ^ 2 * x)) in A3 by ring.
    replace ((D - gap) * (N ^ 2 * D * (h * J))) with ((D - gap) * (N ^ 2 * (D * (h * J)))) in * by ring. revert A3 T.
    generalize ((D - gap) * (z * x * N ^ 2)) ((D - gap) * (N ^ 2 * (D * (h * i)))) ((D - gap) * (N ^ 2 * (D * (h * J)))) (price * (1024 - e) * (D - gap) * (G ^ 2 * x))
      (price * (1024 - e) * (N ^ 2 * (x * D))) ((D - gap) * (price * e * N ^ 2 * x)) ((D - gap) * (p * N ^ 2 * x)). clear. lia.
  Qed.
  Lemma kappa_0 price p z dmin : 0 <= price -> 0 < dmin -> 0 <= kappa price p z dmin.
  Proof.
    intros P D. unfold kappa. set (G := if gap =? 0 then N else _). clearbody G. apply Z.add_nonneg_nonneg.
    - destruct (Z.eq_dec gap 0) as [Z0|Z0].
      + rewrite Z0, Z.mul_0_r. unfold ceil_div. rewrite Zdiv_0_r. lia.
      + apply ceil_pos; [assert (0 < N ^ 2) by (apply Z.pow_pos_nonneg; lia); pos|pos].
    - apply ceil_pos; [assert (0 < N ^ 2) by (apply Z.pow_pos_nonneg; lia); pos|lia].
  Qed.
  Lemma toll_0 price bs : 0 <= price -> right bs = true -> forall fee, 0 <= toll_of price fee bs.
  Proof.
    intros P. induction bs as [|[h z] bs IH]; cbn [right forallb toll_of fst snd]; [lia|]. rewrite !andb_true_iff, Z.ltb_lt. intros [[H _] R] fee.
    specialize (IH R 0). pose proof (kappa_0 price (fee / h) z (Z.max least (gap + h)) P ltac:(lia)). apply Z.add_nonneg_nonneg; [pos|exact IH].
  Qed.
  Lemma gain_flat bs : right bs = true -> forall o, o <= 0 -> gain_of bs o = 0.
  Proof. induction bs as [|[h z] bs IH]; cbn [right forallb gain_of fst snd]; [easy|]. rewrite !andb_true_iff, Z.ltb_lt. intros [[H _] R] o O.
    rewrite IH by (assumption || lia). replace (Z.max 0 (Z.min o h)) with 0 by lia. ring. Qed.
  Lemma band_fair price D bs : 0 <= price -> 0 < D - gap -> least <= D -> right bs = true -> forall fee o o', 0 <= fee -> o' <= o ->
    gap + (Z.max 0 o - Z.max 0 o') <= D ->
    (D - gap) * (gain_of bs o - gain_of bs o' - D * toll_of price fee bs)
      <= price * (Z.max 0 o - Z.max 0 o') * ((1024 - e) * D + e * (D - gap)) + (D - gap) * fee.
  Proof.
    intros P D0 L. assert (0 <= (1024 - e) * D + e * (D - gap)) as C by (apply Z.add_nonneg_nonneg; pos).
    induction bs as [|[h z] bs IH]; cbn [right forallb gain_of toll_of fst snd]; intros R fee o o' F O X.
    - assert (0 <= price * (Z.max 0 o - Z.max 0 o') * ((1024 - e) * D + e * (D - gap))) by pos. assert (0 <= (D - gap) * fee) by pos. lia.
    - rewrite !andb_true_iff, Z.ltb_lt in R. destruct R as [[H _] R]. set (x := Z.max 0 (Z.min o h) - Z.max 0 (Z.min o' h)).
      assert (Z.max 0 o - Z.max 0 o' = x + (Z.max 0 (o - h) - Z.max 0 (o' - h))) as E by (unfold x; lia).
      assert (0 <= x <= h) as XH by (unfold x; lia). specialize (IH R 0 (o - h) (o' - h) ltac:(lia) ltac:(lia) ltac:(lia)).
      assert (0 <= Z.max 0 (o - h) - Z.max 0 (o' - h)) as Y by lia.
      pose proof (kappa_fair price (fee / h) z (Z.max least (gap + h)) D h x P XH D0 ltac:(lia) ltac:(lia)) as K.
      assert (x * Z.max least (gap + h) <= h * D) as DM by (destruct (Z.max_spec least (gap + h)) as [[Q ->]|[Q ->]]; [clear - XH X E Y gap_0; nia|apply Z.mul_le_mono_nonneg; lia]). specialize (K DM).
      pose proof (Z.mul_div_le fee h H) as FH. assert (fee / h * x <= fee) as FX by (etransitivity; [apply Z.mul_le_mono_nonneg_l; [exact (Z.div_pos fee h F H)|exact (proj2 XH)]|rewrite Z.mul_comm; exact FH]).
      rewrite E. set (y := Z.max 0 (o - h) - Z.max 0 (o' - h)) in *. set (k := kappa _ _ _ _) in *.
      replace (z * Z.max 0 (Z.min o h) + gain_of bs (o - h) - (z * Z.max 0 (Z.min o' h) + gain_of bs (o' - h)) - D * (h * k + toll_of price 0 bs))
        with (z * x - D * (h * k) + (gain_of bs (o - h) - gain_of bs (o' - h) - D * toll_of price 0 bs)) by (unfold x; ring).
      pose proof (Z.mul_le_mono_nonneg_l _ _ (D - gap) ltac:(lia) FX). lia.
  Qed.
  (* Someone who pays at prices and fees of ticks. *)
  Variables (price pay : Z -> Z).
  Definition payer_of (bs : bands) a c := Payer a c (gain_of bs) (fun u => toll_of (price u) (pay u) bs) pay.
  Hypothesis price_0 : forall u, 0 <= price u.
  Hypothesis pay_0 : forall u, 0 <= pay u.
  Lemma payer_fair bs a c : right bs = true -> fair price e gap least (payer_of bs a c).
  Proof.
    intros R. split; [cbn; now apply gain_flat|]. split; [intros u; split; [now apply toll_0|apply pay_0]|]. intros D u o x X GD GX L. cbn [gain toll fee payer_of].
    pose proof (band_fair (price u) D bs (price_0 u) ltac:(lia) L R (pay u) o (o - x) (pay_0 u) ltac:(lia) ltac:(lia)) as B.
    unfold pays. cbn [fee payer_of]. replace (Z.max 0 o - Z.max 0 (o - x)) with x in B by lia. exact B.
  Qed.
End Tangent.

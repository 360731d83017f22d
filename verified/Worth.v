(* What the work for one token is worth.

   Prices for what a request adds to a batch (`charge`), and the least price of all work of a request from k tokens of KV
   on until it generates its next token, with S tokens known (`worth`): by a decode or a prefill, from k tokens or from
   none, after a drop. Each act lowers this by at most its charge (`worth_drop`, `worth_on`, `worth_end`). *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices Alone.
Import ListNotations.
Open Scope Z_scope.

Record prices := Rates { c_tok : Z; c_gen : Z; c_dec : Z; c_pre : Z; c_dkv : Z; c_pkv : Z; c_pairs : Z; c_ptok : Z;
  c_blk : Z; c_pack : Z; packs : Z }.  (* blocks in batches that it works in; `c_pack`: of its packing in the last one *)
Definition priced p := forallb (Z.leb 0) [c_tok p; c_gen p; c_dec p; c_pre p; c_dkv p; c_pkv p; c_pairs p; c_ptok p;
  c_blk p; c_pack p; packs p].

Section Worth.
  Variable M : machine.
  Variable p : prices.
  Definition room_of := match memory M with Some m => m / block M | None => 0 end.
  (* a dual feasible function, times the room: what fits into it together has k times the room at most *)
  Definition packing k x := let y := (k + 1) * x in if y mod room_of =? 0 then k * x else y / room_of * room_of.
  Definition pack x := if c_pack p =? 0 then 0 else packing (packs p) x.
  Definition blocks_of x := ceil_div x (block M).
  Definition linear l := c_tok p * tok l + c_gen p * gen l + c_dec p * ndec l + c_pre p * npre l + c_dkv p * dkv l
    + c_pkv p * pkv l + c_pairs p * pairs l + c_ptok p * ptok l.
  Definition charge s a := let l := load_of M s a in
    linear l + c_blk p * (if work a =? 0 then 0 else blk l) + if0 (generates s a) (c_pack p * pack (blk l)).

  Definition limit := if chunked M then
    match (match prefill_tokens M with None => batch_tokens M | p => p end) with
    | Some q => if 1 <=? q then Some q else None | None => None end else None.
  Definition parts_to k e := if e <=? k then 0 else match limit with Some q => ceil_div (e - k) q | None => 1 end.
  Fixpoint held_in n e := match n with O => 0 | S n => held_in n e
    + Z.max 0 (blocks_of (e - Z.of_nat n * match limit with Some q => q | None => 0 end)) end.
  Definition e_of S (last : bool) := S - b2z last.
  (* the price from x on, with the prefills from k on in the fewest, longest parts; `last`: with a decode at the end *)
  Definition fixed S (last : bool) k := let e := e_of S last in let n := parts_to k e in
    c_gen p + c_pack p * pack (blocks_of S) + c_pre p * n + c_blk p * held_in (Z.to_nat n) e
    + if0 last (c_dec p + c_dkv p * (S - 1) + c_blk p * blocks_of S).
  Definition moved S (last : bool) x := let e := e_of S last in
    c_tok p * (S - x) + c_ptok p * (e - x) + c_pairs p * (e * e - x * x) + if0 (x <? e) (c_pkv p * x).
  Definition form S k last x := fixed S last k + moved S last x.
  Definition forms S k :=
    (if (k =? S - 1) && (0 <? k) || chunked M && (1 <? S) then [form S k true k] else [])
    ++ (if (k <=? S - 2) || (k <=? 0) then [form S k false k] else if partial M then [form S k false (S - 2)] else [])
    ++ (if 0 <? k then form S k false 0 :: (if chunked M && (1 <? S) then [form S k true 0] else []) else []).
  Definition least l := match l with [] => 0 | x :: l => fold_right Z.min x l end.
  Definition worth S k := least (forms S k).

  Lemma least_le x l : In x l -> least l <= x.
  Proof. destruct l as [|y l]; cbn [least]; [easy|]. intros [->|H].
    - induction l as [|z l IH]; cbn [fold_right]; lia.
    - induction l as [|z l IH]; [easy|]. cbn [fold_right]. destruct H as [->|H]; [lia|]. specialize (IH H). lia. Qed.
  Lemma least_in l : l <> [] -> In (least l) l.
  Proof. destruct l as [|y l]; [easy|]. intros _. cbn [least]. induction l as [|z l IH]; cbn [fold_right]; [now left|].
    destruct (Z.min_spec z (fold_right Z.min y l)) as [[_ ->]|[_ ->]]; [now right; left|].
    destruct IH as [H|H]; [now left|right; right; exact H]. Qed.
  (* which forms there are *)
  Inductive is_form S k : bool -> Z -> Prop :=
  | a_decode : k = S - 1 /\ 0 < k \/ chunked M = true /\ 1 < S -> is_form S k true k
  | a_prefill : k <= S - 2 \/ k <= 0 -> is_form S k false k
  | a_part : partial M = true -> S - 2 < k -> 0 < k -> is_form S k false (S - 2)
  | a_drop : 0 < k -> is_form S k false 0
  | a_drop_decode : 0 < k -> chunked M = true -> 1 < S -> is_form S k true 0.
  Lemma in_forms S k y : In y (forms S k) <-> exists last x, is_form S k last x /\ y = form S k last x.
  Proof.
    unfold forms. rewrite !in_app_iff. split.
    - intros [H|[H|H]].
      + destruct (_ || _) eqn:E in H; [|easy]. destruct H as [<-|[]]. exists true, k. split; [|reflexivity]. constructor.
        rewrite orb_true_iff, !andb_true_iff, Z.eqb_eq, !Z.ltb_lt in E. exact E.
      + destruct (_ || _) eqn:E in H.
        * destruct H as [<-|[]]. exists false, k. split; [|reflexivity]. constructor. rewrite orb_true_iff, !Z.leb_le in E. exact E.
        * destruct (partial M) eqn:P; [|easy]. destruct H as [<-|[]]. exists false, (S - 2). split; [|reflexivity].
          rewrite orb_false_iff, !Z.leb_gt in E. now constructor.
      + destruct (Z.ltb_spec 0 k) as [E|E]; [|easy]. destruct H as [<-|H].
        * exists false, 0. split; [now constructor|reflexivity].
        * destruct (_ && _) eqn:C in H; [|easy]. destruct H as [<-|[]]. exists true, 0. split; [|reflexivity].
          rewrite andb_true_iff, Z.ltb_lt in C. now constructor.
    - intros (last & x & H & ->). destruct H as [H|H|H1 H2 H3|H|H1 H2 H3].
      + left. replace (_ || _) with true; [now left|]. symmetry. rewrite orb_true_iff, !andb_true_iff, Z.eqb_eq, !Z.ltb_lt. exact H.
      + right. left. replace (_ || _) with true; [now left|]. symmetry. rewrite orb_true_iff, !Z.leb_le. exact H.
      + right. left. replace (_ || _) with false; [rewrite H1; now left|]. symmetry. rewrite orb_false_iff, !Z.leb_gt. lia.
      + right. right. destruct (Z.ltb_spec 0 k); [now left|lia].
      + right. right. destruct (Z.ltb_spec 0 k); [|lia]. rewrite H2. destruct (Z.ltb_spec 1 S); [right; now left|lia].
  Qed.
  Lemma worth_le S k last x : is_form S k last x -> worth S k <= form S k last x.
  Proof. intros H. apply least_le, in_forms. now exists last, x. Qed.
  Lemma worth_is S k : exists last x, is_form S k last x /\ worth S k = form S k last x.
  Proof.
    apply in_forms, least_in. intros H. assert (exists y, In y (forms S k)) as [y Y]; [|rewrite H in Y; exact Y].
    destruct (Z.lt_ge_cases 0 k) as [K|K].
    - exists (form S k false 0). apply in_forms. exists false, 0. split; [now constructor|reflexivity].
    - exists (form S k false k). apply in_forms. exists false, k. split; [constructor; now right|reflexivity].
  Qed.

  Hypothesis block_ok : 0 < block M.
  Hypothesis prices_ok : priced p = true.
  Lemma prices_pos : 0 <= c_tok p /\ 0 <= c_gen p /\ 0 <= c_dec p /\ 0 <= c_pre p /\ 0 <= c_dkv p /\ 0 <= c_pkv p /\
    0 <= c_pairs p /\ 0 <= c_ptok p /\ 0 <= c_blk p /\ 0 <= c_pack p /\ 0 <= packs p.
  Proof. unfold priced in prices_ok. cbn [forallb] in prices_ok. rewrite !andb_true_iff, !Z.leb_le in prices_ok. tauto. Qed.
  Lemma limit_1 q : limit = Some q -> 1 <= q.
  Proof. unfold limit. destruct (chunked M); [|easy]. destruct (match prefill_tokens M with None => _ | _ => _ end) as [r|]; [|easy].
    destruct (Z.leb_spec 1 r); [|easy]. now intros [= <-]. Qed.
  Lemma blocks_0 x : 0 <= x -> 0 <= blocks_of x.
  Proof. intros H. rewrite <- (ceil_0 (block M)). now apply ceil_mono. Qed.
  Lemma parts_0 k e : 0 <= parts_to k e.
  Proof. unfold parts_to. destruct (Z.leb_spec e k); [lia|]. destruct limit as [q|] eqn:L; [|lia]. apply limit_1 in L.
    rewrite <- (ceil_0 q). apply ceil_mono; lia. Qed.
  Lemma parts_drop k k' e : k' <= k -> parts_to k e <= parts_to k' e.
  Proof. intros H. pose proof (parts_0 k' e) as N. unfold parts_to in *. destruct (Z.leb_spec e k); [exact N|].
    destruct (Z.leb_spec e k'); [lia|]. destruct limit as [q|] eqn:L; [|lia]. apply limit_1 in L. apply ceil_mono; lia. Qed.
  Lemma parts_on m c e : 1 <= c -> (forall q, limit = Some q -> c <= q) -> m + c <= e -> parts_to m e <= 1 + parts_to (m + c) e.
  Proof.
    intros C Q E. unfold parts_to. destruct (Z.leb_spec e m); [lia|]. destruct limit as [q|] eqn:L.
    - pose proof (limit_1 _ L). specialize (Q q eq_refl). pose proof (ceil_less (e - m) c q ltac:(lia) Q) as X.
      replace (e - m - c) with (e - (m + c)) in X by lia. destruct (Z.leb_spec e (m + c)); [|exact X].
      replace (e - (m + c)) with 0 in X by lia. rewrite ceil_0 in X. exact X.
    - destruct (Z.leb_spec e (m + c)); lia.
  Qed.
  Lemma held_mono n n' e : (n <= n')%nat -> held_in n e <= held_in n' e.
  Proof. induction 1 as [|n' H IH]; [lia|]. cbn [held_in]. lia. Qed.
  Lemma held_on m c e : 0 <= m -> 1 <= c -> (forall q, limit = Some q -> c <= q) -> m + c <= e ->
    held_in (Z.to_nat (parts_to m e)) e <= blocks_of (m + c) + held_in (Z.to_nat (parts_to (m + c) e)) e.
  Proof.
    intros N C Q E. pose proof (parts_on m c e C Q E) as X. pose proof (blocks_0 (m + c) ltac:(lia)) as B.
    pose proof (parts_0 (m + c) e) as Y.
    assert (held_in (Z.to_nat (parts_to m e)) e <= held_in (S (Z.to_nat (parts_to (m + c) e))) e) as H by (apply held_mono; lia).
    cbn [held_in] in H. rewrite Z2Nat.id in H by exact Y. destruct limit as [q|] eqn:L.
    - pose proof (limit_1 _ L). enough (blocks_of (e - parts_to (m + c) e * q) <= blocks_of (m + c)) by lia.
      apply ceil_mono; [exact block_ok|]. unfold parts_to. destruct (Z.leb_spec e (m + c)); [lia|]. rewrite L.
      pose proof (ceil_le (e - (m + c)) q _ ltac:(lia) (Z.le_refl _)). lia.
    - clear H. unfold parts_to in *. rewrite L in *. destruct (Z.leb_spec e m); [lia|].
      destruct (Z.leb_spec e (m + c)) as [F|F]; [|cbn; lia]. replace e with (m + c) by lia.
      change (Z.to_nat 1) with 1%nat. change (Z.to_nat 0) with 0%nat. cbn [held_in Z.of_nat]. rewrite Z.mul_0_l, Z.sub_0_r. lia.
  Qed.
  Lemma fixed_drop S last k k' : k' <= k -> fixed S last k <= fixed S last k'.
  Proof.
    intros H. unfold fixed. pose proof prices_pos as (_ & _ & _ & P1 & _ & _ & _ & _ & P2 & _).
    pose proof (parts_drop _ _ (e_of S last) H) as Q. pose proof (held_mono (Z.to_nat (parts_to k (e_of S last)))
      (Z.to_nat (parts_to k' (e_of S last))) (e_of S last) ltac:(lia)) as R.
    pose proof (Z.mul_le_mono_nonneg_l _ _ _ P1 Q). pose proof (Z.mul_le_mono_nonneg_l _ _ _ P2 R). lia.
  Qed.
  Lemma fixed_on S last m c : 0 <= m -> 1 <= c -> (forall q, limit = Some q -> c <= q) -> m + c <= e_of S last ->
    fixed S last m <= c_pre p + c_blk p * blocks_of (m + c) + fixed S last (m + c).
  Proof.
    intros N C Q E. unfold fixed. pose proof prices_pos as (_ & _ & _ & P1 & _ & _ & _ & _ & P2 & _).
    pose proof (Z.mul_le_mono_nonneg_l _ _ _ P1 (parts_on m c _ C Q E)).
    pose proof (Z.mul_le_mono_nonneg_l _ _ _ P2 (held_on m c _ N C Q E)). lia.
  Qed.
  (* concave: the ends are enough *)
  Lemma moved_ends S last k x : 0 <= x < k -> k <= e_of S last -> moved S last 0 <= moved S last x \/ moved S last k <= moved S last x.
  Proof.
    intros H K. pose proof prices_pos as (P1 & _ & _ & _ & _ & P2 & P3 & P4 & _). unfold moved. set (e := e_of S last) in *.
    destruct (Z.ltb_spec x e); [|lia]. destruct (Z.ltb_spec 0 e); [|lia]. cbn [if0].
    assert (if0 (k <? e) (c_pkv p * k) <= c_pkv p * k) as X by (destruct (k <? e); cbn [if0]; nia).
    generalize dependent (if0 (k <? e) (c_pkv p * k)). intros u U.
    destruct (Z.le_gt_cases (c_pkv p) (c_tok p + c_ptok p + c_pairs p * (x + k))) as [W|W]; [right|left].
    - assert (0 <= (k - x) * (c_tok p + c_ptok p + c_pairs p * (x + k) - c_pkv p)) by nia. nia.
    - assert (c_pairs p * x <= c_pairs p * (x + k)) by nia.
      assert (0 <= x * (c_pkv p - (c_tok p + c_ptok p + c_pairs p * x))) by nia. nia.
  Qed.

  (* A drop. *)
  Lemma worth_drop S k k' : 0 <= k' <= k -> k <= S - 1 -> (partial M = false -> k' = k \/ k' = 0) -> worth S k <= worth S k'.
  Proof.
    intros H K D. destruct (Z.eq_dec k' k) as [->|N]; [lia|]. destruct (worth_is S k') as (last & x & F & ->).
    assert (forall l y, is_form S k l y -> form S k l y <= form S k' l y -> worth S k <= form S k' l y) as W0.
    { intros l y A B. pose proof (worth_le _ _ _ _ A). lia. }
    assert (forall l y, form S k l y <= form S k' l y) as FD by (intros l y; unfold form; pose proof (fixed_drop S l k k' ltac:(lia)); lia).
    assert (forall l z, is_form S k l z -> is_form S k l 0 -> 0 <= x < z -> z <= e_of S l -> worth S k <= form S k' l x) as W2.
    { intros l z A B C E. pose proof (worth_le _ _ _ _ A). pose proof (worth_le _ _ _ _ B). pose proof (FD l x).
      pose proof (moved_ends S l z x C E). unfold form in *. lia. }
    destruct (Z.eq_dec x 0) as [->|X0].
    - apply W0; [|apply FD]. destruct last; [|apply a_drop; lia]. apply a_drop_decode; [lia| |]; inversion F; intuition lia || assumption.
    - destruct (partial M) eqn:P; [|destruct (D eq_refl); [lia|]; subst; inversion F; lia].
      inversion F; subst; try lia.
      + assert (chunked M = true /\ 1 < S) as [C1 C2] by (destruct H0; [lia|assumption]).
        apply (W2 true k); [constructor; right; now split|constructor; lia || assumption|lia|unfold e_of; cbn; lia].
      + destruct (Z.eq_dec k (S - 1)) as [E|E].
        * destruct (Z.eq_dec x (S - 2)) as [E2|E2].
          -- apply W0; [|apply FD]. rewrite E2. constructor; lia || assumption.
          -- apply (W2 false (S - 2)); [constructor; lia || assumption|constructor; lia|lia|unfold e_of; cbn; lia].
        * apply (W2 false k); [constructor; lia|constructor; lia|lia|unfold e_of; cbn; lia].
  Qed.
  Lemma pack_0 x : 0 <= x -> 0 <= pack x.
  Proof.
    intros X. pose proof prices_pos as (_ & _ & _ & _ & _ & _ & _ & _ & _ & _ & P). unfold pack, packing.
    destruct (_ =? 0); [lia|]. destruct (_ =? 0); [nia|].
    destruct (Z.le_gt_cases room_of 0) as [R|R]; [|apply Z.mul_nonneg_nonneg; [apply Z.div_pos; nia|lia]].
    destruct (Z.eq_dec room_of 0) as [->|N]; [lia|]. assert ((packs p + 1) * x / room_of <= 0); [|nia].
    rewrite <- Z.div_opp_opp by lia. apply Z.div_le_upper_bound; nia.
  Qed.
  Lemma worth_0 S k : 0 <= k <= S - 1 -> 0 <= worth S k.
  Proof.
    intros K. destruct (worth_is S k) as (last & x & F & ->). assert (0 <= x <= e_of S last /\ e_of S last <= S) as [X E].
    { unfold e_of. inversion F; subst; cbn [b2z]; lia. }
    pose proof prices_pos as (P1 & P2 & P3 & P4 & P5 & P6 & P7 & P8 & P9 & P10 & P11). pose proof (parts_0 k (e_of S last)).
    pose proof (held_mono 0 (Z.to_nat (parts_to k (e_of S last))) (e_of S last) ltac:(lia)) as H0. cbn [held_in] in H0.
    pose proof (blocks_0 S ltac:(lia)). pose proof (pack_0 (blocks_of S) ltac:(lia)). unfold form, fixed, moved.
    assert (forall b y, 0 <= y -> 0 <= if0 b y) as I0 by (intros []; cbn; lia).
    repeat apply Z.add_nonneg_nonneg; try apply I0; repeat apply Z.add_nonneg_nonneg; try (apply Z.mul_nonneg_nonneg; lia); try lia;
      apply Z.mul_nonneg_nonneg; nia || lia.
  Qed.

  (* An act: what it adds is charged. *)
  Section Act.
    Variables (t : Z) (s : state) (a : act).
    Hypothesis legal : local M t s a.
    Hypothesis small : forall q, limit = Some q -> work a <= q.
    Hypothesis works : work a <> 0.
    Local Notation m := (m2 s a).
    Lemma act_phase : 0 <= m /\ 1 <= work a <= known s - m /\ (chunked M = false -> work a = known s - m) /\
      (decodes s a = true /\ prefills s a = false /\ 0 < m /\ known s - m = 1 /\ work a = 1
       \/ decodes s a = false /\ prefills s a = true /\ (m = 0 \/ 2 <= known s - m)).
    Proof.
      destruct legal as (_ & W & _ & _ & _ & _ & G). destruct (W works) as [W1 W2]. pose proof (m2_nonneg _ _ G) as N.
      split; [exact N|]. split; [exact W1|]. split; [exact W2|]. unfold prefills, decodes.
      destruct (Z.eqb_spec (work a) 0); [contradiction|]. cbn [negb andb].
      destruct (Z.ltb_spec 0 m), (Z.eqb_spec (known s - m) 1); cbn [negb andb]; lia.
    Qed.
    Lemma generates_is : generates s a = (m + work a =? known s).
    Proof. unfold generates. destruct (Z.eqb_spec (work a) 0); [contradiction|reflexivity]. Qed.
    Lemma charge_prefill : decodes s a = false -> prefills s a = true -> charge s a = c_tok p * work a + c_pre p
      + c_pkv p * m + c_pairs p * (work a * work a + 2 * work a * m) + c_ptok p * work a + c_blk p * blocks_of (m + work a)
      + if0 (m + work a =? known s) (c_gen p + c_pack p * pack (blocks_of (m + work a))).
    Proof.
      intros D F. unfold charge, linear, load_of. rewrite D, F, generates_is. destruct (Z.eqb_spec (work a) 0); [contradiction|].
      cbn [tok gen ndec npre dkv pkv pairs ptok blk b2z if0]. fold (blocks_of (m + work a)).
      destruct (m + work a =? known s); cbn [b2z if0]; ring.
    Qed.
    (* Some of its tokens: *)
    Lemma worth_on : m + work a <> known s -> worth (known s) m <= charge s a + worth (known s) (m + work a).
    Proof.
      intros E. destruct act_phase as (N & W & C & [(_ & _ & _ & X & _)|(D & F & X)]); [lia|].
      pose proof prices_pos as (P1 & P2 & P3 & P4 & P5 & P6 & P7 & P8 & P9 & P10 & P11).
      assert (chunked M = true) as CH by (destruct (chunked M); [reflexivity|specialize (C eq_refl); lia]).
      rewrite (charge_prefill D F). destruct (Z.eqb_spec (m + work a) (known s)); [contradiction|]. cbn [if0].
      set (S := known s) in *. set (w := work a) in *. destruct (worth_is S (m + w)) as (last & x & G & ->).
      assert (forall y, is_form S m last y -> moved S last y <= c_tok p * w + c_pkv p * m + c_pairs p * (w * w + 2 * w * m)
        + c_ptok p * w + moved S last x -> worth S m <= c_tok p * w + c_pre p + c_pkv p * m
        + c_pairs p * (w * w + 2 * w * m) + c_ptok p * w + c_blk p * blocks_of (m + w) + 0 + form S (m + w) last x) as W0.
      { intros y A B. pose proof (worth_le _ _ _ _ A) as A2. unfold form in *.
        pose proof (fixed_on S last m w N ltac:(lia) small ltac:(unfold e_of; destruct last; cbn; lia)). lia. }
      assert (0 <= c_pairs p * (w * w + 2 * w * m)) as N1 by (apply Z.mul_nonneg_nonneg; [lia|nia]).
      assert (0 <= c_tok p * w /\ 0 <= c_ptok p * w /\ 0 <= c_pkv p * m /\ 0 <= c_pkv p * (m + w)) as N2 by (repeat split; apply Z.mul_nonneg_nonneg; lia).
      assert (forall l, m + w <= e_of S l -> moved S l m <= c_tok p * w + c_pkv p * m + c_pairs p * (w * w + 2 * w * m)
        + c_ptok p * w + moved S l (m + w)) as TEL.
      { intros l B. unfold moved. destruct (Z.ltb_spec m (e_of S l)); [|lia]. cbn [if0].
        assert (0 <= if0 (m + w <? e_of S l) (c_pkv p * (m + w))) by (destruct (_ <? _); cbn [if0]; lia). nia. }
      inversion G; subst.
      - apply (W0 m); [constructor; right; split; [assumption|lia]|]. apply TEL. unfold e_of; cbn; lia.
      - apply (W0 m); [constructor; lia|]. apply TEL. unfold e_of; cbn; lia.
      - apply (W0 m); [constructor; lia|]. unfold moved, e_of. cbn [b2z]. replace (S - 0) with S by lia.
        destruct (Z.ltb_spec m S), (Z.ltb_spec (S - 2) S); try lia. cbn [if0]. replace w with (S - 1 - m) in * by lia.
        assert (0 <= c_pkv p * (S - 2)) by (apply Z.mul_nonneg_nonneg; lia).
        assert (0 <= c_pairs p * (2 * S - 3)) by (apply Z.mul_nonneg_nonneg; lia). nia.
      - apply (W0 0); [|lia]. destruct (Z.eq_dec m 0) as [Z0|Z0]; [rewrite Z0; constructor; lia|now constructor; lia].
      - apply (W0 0); [|lia]. destruct (Z.eq_dec m 0) as [Z0|Z0]; [rewrite Z0; constructor; right; now split|constructor; lia || assumption].
    Qed.
    (* All, so that one is generated: *)
    Lemma worth_end : m + work a = known s -> worth (known s) m <= charge s a.
    Proof.
      intros E. destruct act_phase as (N & W & C & [(D & F & X & Y & Z)|(D & F & X)]);
        pose proof prices_pos as (P1 & P2 & P3 & P4 & P5 & P6 & P7 & P8 & P9 & P10 & P11).
      - etransitivity; [apply (worth_le _ _ true m); constructor; left; lia|].
        unfold charge, linear, load_of. rewrite D, F, generates_is, E, Z.eqb_refl. destruct (Z.eqb_spec (work a) 0); [contradiction|].
        cbn [tok gen ndec npre dkv pkv pairs ptok blk b2z if0]. fold (blocks_of (known s)).
        unfold form, fixed, moved, parts_to, e_of. cbn [b2z]. replace (known s - 1) with m by lia.
        rewrite Z.leb_refl, Z.ltb_irrefl. cbn [Z.to_nat held_in if0]. replace (known s - m) with 1 by lia. rewrite Z. lia.
      - etransitivity; [apply (worth_le _ _ false m); constructor; lia|]. rewrite (charge_prefill D F), E, Z.eqb_refl.
        pose proof (fixed_on (known s) false m (work a) N ltac:(lia) small ltac:(unfold e_of; cbn; lia)) as Q.
        rewrite E in Q. unfold form. unfold fixed at 2 in Q. unfold moved, parts_to, e_of in *. cbn [b2z] in *.
        replace (known s - 0) with (known s) in * by lia. rewrite Z.leb_refl in Q. cbn [Z.to_nat held_in if0] in *.
        destruct (Z.ltb_spec m (known s)); [|lia]. cbn [if0]. nia.
    Qed.
  End Act.
End Worth.

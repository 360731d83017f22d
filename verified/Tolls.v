(* Payments by speed: what requests pay for their work in batches is at most what all prices together give.

   A batch of D units of time, `gap` of which are shared by none, takes at least `gap` and all work done in it. At the price
   p a tick, work x pays p x / (D - gap) a tick, but the 1024ths `e` of the price by p x / D, and a fee by p `gap` / D: all
   together at most p. Each payer has a value of what work is left (`gain`) and a `toll` a tick, such that what it pays in
   a batch is at least the value of the work less the tolls of the batch (`fair`). So the value of all work is at most all
   tolls and all prices (`tolls_le`). *)
Require Import ZArith List Bool Lia Spec OneMachine.
Import ListNotations.
Open Scope Z_scope.

(* Sums over ticks. *)
Fixpoint area (f : Z -> Z) a n := match n with O => 0 | S n => f a + area f (a + 1) n end.
Definition upto (f : Z -> Z) a b := area f a (Z.to_nat (b - a)).
Lemma area_add f n m : forall a, area f a (n + m) = area f a n + area f (a + Z.of_nat n) m.
Proof. induction n as [|n IH]; intros a; cbn [area Nat.add]; [now rewrite Z.add_0_r|]. rewrite IH.
  replace (a + 1 + Z.of_nat n) with (a + Z.of_nat (S n)) by lia. ring. Qed.
Lemma upto_cut f a b c : a <= b <= c -> upto f a c = upto f a b + upto f b c.
Proof.
  intros H. unfold upto. replace (Z.to_nat (c - a)) with (Z.to_nat (b - a) + Z.to_nat (c - b))%nat by lia.
  rewrite area_add. f_equal. f_equal. lia.
Qed.
Lemma area_0 f n : (forall u, 0 <= f u) -> forall a, 0 <= area f a n.
Proof. intros F. induction n as [|n IH]; intros a; cbn [area]; [lia|]. specialize (F a). specialize (IH (a + 1)). lia. Qed.
Lemma upto_0 f a b : (forall u, 0 <= f u) -> 0 <= upto f a b. Proof. intros F. now apply area_0. Qed.
Lemma upto_none f a b : b <= a -> upto f a b = 0.
Proof. intros H. unfold upto. now replace (Z.to_nat (b - a)) with O by lia. Qed.
Lemma area_const f c n : forall a, (forall u, a <= u < a + Z.of_nat n -> f u = c) -> area f a n = c * Z.of_nat n.
Proof. induction n as [|n IH]; intros a F; cbn [area]; [lia|]. rewrite (F a), (IH (a + 1)) by (lia || (intros; apply F; lia)). lia. Qed.
Lemma upto_const f c a b : a <= b -> (forall u, a <= u < b -> f u = c) -> upto f a b = c * (b - a).
Proof. intros H F. unfold upto. rewrite (area_const f c); [f_equal; lia|]. intros u U. apply F. lia. Qed.
Lemma area_plus f g n : forall a, area (fun u => f u + g u) a n = area f a n + area g a n.
Proof. induction n as [|n IH]; intros a; cbn [area]; [lia|]. rewrite IH. lia. Qed.
Lemma upto_plus f g a b : upto (fun u => f u + g u) a b = upto f a b + upto g a b. Proof. apply area_plus. Qed.
Lemma area_le f g x y n : forall a, (forall u, a <= u < a + Z.of_nat n -> x <= f u + y * g u) -> x * Z.of_nat n <= area f a n + y * area g a n.
Proof. induction n as [|n IH]; intros a F; cbn [area]; [lia|]. pose proof (F a ltac:(lia)). specialize (IH (a + 1) ltac:(intros; apply F; lia)). nia. Qed.
Lemma upto_le f g x y a b : a <= b -> (forall u, a <= u < b -> x <= f u + y * g u) -> x * (b - a) <= upto f a b + y * upto g a b.
Proof. intros H F. unfold upto. replace (b - a) with (Z.of_nat (Z.to_nat (b - a))) at 1 by lia. apply area_le. intros u U. apply F. lia. Qed.

Record payer := Payer { since : Z; till : Z; gain : Z -> Z; toll : Z -> Z; fee : Z -> Z }.
Section Tolls.
  Variable price : Z -> Z.
  Variables e gap least : Z.
  Hypothesis price_0 : forall u, 0 <= price u.
  Hypothesis gap_0 : 0 <= gap.
  Hypothesis e_ok : 0 <= e <= 1024.
  Definition pays D u x k := price u * x * ((1024 - e) * D + e * (D - gap)) + (D - gap) * fee k u.  (* times D (D - gap) / 1024 *)
  Definition fair k := gain k 0 = 0 /\ (forall u, 0 <= toll k u /\ 0 <= fee k u) /\ forall D u o x,
    0 <= x <= o -> gap < D -> gap + x <= D -> least <= D -> (D - gap) * (gain k o - gain k (o - x) - D * toll k u) <= pays D u x k.
  Definition fits k j := fair k /\ till k = ends j /\ Forall (fun p => since k <= from p /\ 0 <= behind p) (left j).
  Definition worth_of k j := sum (fun p => gain k (amount p)) (left j).
  Fixpoint worths ks js {struct ks} := match ks, js with k :: ks, j :: js => worth_of k j + worths ks js | _, _ => 0 end.
  Definition tolls_from now ks := sum (fun k => upto (toll k) (Z.max now (since k)) (till k)) ks.
  Definition fees u ks := sum (fun k => if0 ((since k <=? u) && (u <? till k)) (fee k u)) ks.
  Lemma fees_0 u ks : Forall fair ks -> 0 <= fees u ks.
  Proof. unfold fees, sum. induction 1 as [|k ks F _ IH]; cbn [fold_right]; [lia|]. destruct F as (_ & F & _). specialize (F u). destruct (_ && _); cbn [if0]; lia. Qed.
  Lemma tolls_falls now now' ks : Forall fair ks -> now <= now' -> tolls_from now' ks <= tolls_from now ks.
  Proof.
    unfold tolls_from, sum. intros F N. induction F as [|k ks F _ IH]; cbn [fold_right]; [lia|]. apply Z.add_le_mono; [|exact IH].
    assert (forall u, 0 <= toll k u) as T by (intros u; apply F). destruct (Z.le_gt_cases (till k) (Z.max now' (since k))).
    - rewrite (upto_none _ (Z.max now' _)) by assumption. now apply upto_0.
    - rewrite (upto_cut _ (Z.max now (since k)) (Z.max now' (since k)) (till k)) by lia. pose proof (upto_0 (toll k) (Z.max now (since k)) (Z.max now' (since k)) T). lia.
  Qed.
  (* One batch: those that it serves take `paid` a tick for it. *)
  Lemma serves_pays t D X js js' : serves t D X js js' -> gap < D -> gap + X <= D -> least <= D -> forall ks, Forall2 fits ks js ->
    Forall2 fits ks js' /\ exists paid, tolls_from (t + D) ks + upto paid t (t + D) <= tolls_from t ks /\ forall u, t <= u < t + D ->
      (D - gap) * (worths ks js - worths ks js' - D * paid u) <= price u * X * ((1024 - e) * D + e * (D - gap)) + (D - gap) * fees u ks.
  Proof.
    intros S GD. induction S as [|x X j j' js js' S SS IH]; intros GX LD ks K; inversion K as [|k y ks2 z K1 K2]; subst.
    { split; [constructor|]. exists (fun _ => 0). split; [cbn; rewrite (upto_const _ 0) by (lia || easy); lia|]. intros u _. cbn. lia. }
    pose proof (serves_pos _ _ _ _ _ SS) as XP. assert (0 <= x) as X0 by (inversion S; lia).
    destruct (IH ltac:(lia) LD ks2 K2) as (F & paid & P1 & P2). clear IH.
    assert (fits k j' /\ exists more,
      upto (toll k) (Z.max (t + D) (since k)) (till k) + upto more t (t + D) <= upto (toll k) (Z.max t (since k)) (till k) /\
      forall u, t <= u < t + D -> (D - gap) * (worth_of k j - worth_of k j' - D * more u) <= price u * x * ((1024 - e) * D + e * (D - gap))
        + (D - gap) * if0 ((since k <=? u) && (u <? till k)) (fee k u)) as (F1 & more & M1 & M2).
    { destruct K1 as (KF & KE & KP). pose proof KF as (G0 & T0 & G). assert (forall u, 0 <= toll k u) as T by (intros u; apply T0).
      assert (0 <= (1024 - e) * D + e * (D - gap)) as C0 by nia.
      assert (forall j1 d, worth_of k j - worth_of k j1 = d -> fits k j1 -> 0 = d -> fits k j1 /\ exists more,
        upto (toll k) (Z.max (t + D) (since k)) (till k) + upto more t (t + D) <= upto (toll k) (Z.max t (since k)) (till k) /\
        forall u, t <= u < t + D -> (D - gap) * (worth_of k j - worth_of k j1 - D * more u) <= price u * x * ((1024 - e) * D + e * (D - gap))
        + (D - gap) * if0 ((since k <=? u) && (u <? till k)) (fee k u)) as IDLE.
      { intros j1 d E1 E2 <-. split; [exact E2|]. exists (fun _ => 0). split.
        - rewrite (upto_const (fun _ => 0) 0) by (lia || easy). pose proof (tolls_falls t (t + D) [k] ltac:(now constructor) ltac:(lia)) as Q.
          unfold tolls_from in Q. cbn [sum fold_right] in Q. lia.
        - intros u U. rewrite E1. specialize (T0 u). specialize (price_0 u). assert (0 <= price u * x) by nia.
          assert (0 <= price u * x * ((1024 - e) * D + e * (D - gap))) by nia. destruct (_ && _); cbn [if0]; nia. }
      assert (forall c r w q l y l', j = Job c (Piece r w q :: l) -> j' = Job c l' -> r <= t -> 0 <= x <= w -> t + D + q <= c -> y = w - x ->
        worth_of k j - worth_of k j' = gain k w - gain k y -> fits k j' -> fits k j' /\ exists more,
        upto (toll k) (Z.max (t + D) (since k)) (till k) + upto more t (t + D) <= upto (toll k) (Z.max t (since k)) (till k) /\
        forall u, t <= u < t + D -> (D - gap) * (worth_of k j - worth_of k j' - D * more u) <= price u * x * ((1024 - e) * D + e * (D - gap))
        + (D - gap) * if0 ((since k <=? u) && (u <? till k)) (fee k u)) as WORK.
      { intros c r w q l y l' -> -> R W E -> V FJ. split; [exact FJ|]. exists (toll k). cbn [left ends] in *. inversion KP as [|p1 p2 [P3 P4] _].
        subst. cbn [from behind] in *. rewrite !Z.max_l by lia. split; [rewrite (upto_cut (toll k) t (t + D) (till k)) by lia; lia|].
        intros u U. rewrite V. specialize (G D u w x W GD ltac:(lia) LD). unfold pays in G.
        destruct (Z.leb_spec (since k) u); [|lia]. destruct (Z.ltb_spec u (till k)); [|lia]. cbn [andb if0]. exact G. }
      inversion S as [j0|c r w q l x0 R W E|c r w q l R W E]; subst.
      - apply (IDLE j' 0); [lia|exact (conj KF (conj KE KP))|reflexivity].
      - apply (WORK c r w q l (w - x) (Piece r (w - x) q :: l)); try reflexivity; try assumption.
        + unfold worth_of, sum. cbn [left fold_right amount]. lia.
        + split; [exact KF|]. split; [exact KE|]. cbn [left] in *. inversion KP. subst. now constructor.
      - apply (WORK c r x q l 0 l); try reflexivity; try assumption; try lia.
        + unfold worth_of, sum. cbn [left fold_right amount]. lia.
        + split; [exact KF|]. split; [exact KE|]. cbn [left] in *. now inversion KP. }
    split; [now constructor|]. exists (fun u => more u + paid u). unfold tolls_from, fees in *. cbn [sum fold_right worths]. unfold sum in *. split.
    - rewrite upto_plus. lia.
    - intros u U. specialize (P2 u U). specialize (M2 u U). nia.
  Qed.
  Theorem tolls_le now js : served least gap now js -> forall ks last, Forall2 fits ks js -> Forall (fun k => till k <= last) ks ->
    (forall u, fees u ks <= e * price u * gap) -> worths ks js <= tolls_from now ks + 1024 * upto price now last.
  Proof.
    induction 1 as [now js F|now t D X js js' N D0 S B L R IH]; intros ks last K U FE.
    - assert (worths ks js = 0) as ->.
      { revert F. clear U FE. induction K as [|k j ks js _ _ IH]; intros F; [reflexivity|]. inversion F as [|a b E F2]. subst. cbn [worths]. rewrite (IH F2).
        unfold worth_of. now rewrite E. }
      assert (0 <= tolls_from now ks); [|pose proof (upto_0 price now last price_0); lia].
      unfold tolls_from, sum. clear - K. induction K as [|k j ks js (F & _) _ IH]; cbn [fold_right]; [lia|].
      pose proof (upto_0 (toll k) (Z.max now (since k)) (till k) ltac:(intros u; apply F)). lia.
    - assert (Forall fair ks) as FK by (clear - K; induction K as [|k j ks js (F & _) _ IH]; now constructor).
      pose proof (tolls_falls now t ks FK N) as TN. assert (upto price t last <= upto price now last) as PN.
      { destruct (Z.le_gt_cases last t) as [Q|Q]; [rewrite (upto_none _ t) by exact Q; now apply upto_0|]. rewrite (upto_cut price now t last) by lia.
        pose proof (upto_0 price now t price_0). lia. }
      pose proof (serves_pos _ _ _ _ _ S) as XP. destruct (Z.eq_dec X 0) as [X0|X0].
      + assert (worths ks js = worths ks js' /\ Forall2 fits ks js') as [-> K'].
        { clear - S X0 K. revert ks K. induction S as [|x X j j' js js' S SS IH]; intros ks K; inversion K as [|k y ks2 z K1 K2]; subst; [now split|].
          pose proof (serves_pos _ _ _ _ _ SS). assert (0 <= x) by (inversion S; lia). destruct (IH ltac:(lia) ks2 K2) as [E K3]. cbn [worths]. rewrite E.
          destruct K1 as (KF & KE & KP). unfold worth_of, sum. inversion S as [j0|c r w q l x0 A W C|c r w q l A W C]; subst; cbn [left fold_right amount] in *.
          - split; [reflexivity|]. constructor; [exact (conj KF (conj KE KP))|exact K3].
          - replace x with 0 by lia. rewrite Z.sub_0_r. split; [reflexivity|]. constructor; [|exact K3]. split; [exact KF|]. split; [exact KE|]. cbn [left]. inversion KP. subst. now constructor.
          - replace x with 0 by lia. pose proof KF as (G0 & _). rewrite G0. split; [reflexivity|]. constructor; [|exact K3]. split; [exact KF|].
            split; [exact KE|]. cbn [left]. now inversion KP. }
        specialize (IH ks last K' U FE). pose proof (tolls_falls t (t + D) ks FK ltac:(lia)) as T2. assert (upto price (t + D) last <= upto price t last); [|lia].
        destruct (Z.le_gt_cases last (t + D)) as [Q|Q]; [rewrite (upto_none _ (t + D)) by exact Q; now apply upto_0|]. rewrite (upto_cut price t (t + D) last) by lia.
        pose proof (upto_0 price t (t + D) price_0). lia.
      + destruct (L ltac:(lia)) as [L1 L2]. destruct (serves_pays t D X js js' S ltac:(lia) ltac:(lia) L1 ks K) as (K' & paid & P1 & P2).
        specialize (IH ks last K' U FE). assert (t + D <= last) as TL.
        { clear - S XP X0 K U. assert (0 < X) as P by lia. clear XP X0. revert ks K U. induction S as [|x X j j' js js' S SS IH]; intros ks K U; [lia|].
          inversion K as [|k y ks2 z K1 K2]. subst. inversion U as [|a b U1 U2]. subst. destruct K1 as (_ & KE & KP).
          destruct (Z.le_gt_cases X 0); [|exact (IH ltac:(assumption) ks2 K2 U2)].
          inversion S as [j0|c r w q l x0 A W C|c r w q l A W C]; subst; cbn [left ends] in *; try lia; inversion KP as [|p1 p2 [_ P4] _]; subst; cbn [behind] in *; lia. }
        assert ((worths ks js - worths ks js') * (t + D - t) <= upto (fun u => D * paid u) t (t + D) + 1024 * D * upto price t (t + D)) as Q.
        { apply upto_le; [lia|]. intros u Uu. specialize (P2 u Uu). specialize (FE u). specialize (price_0 u).
          assert (price u * X * ((1024 - e) * D + e * (D - gap)) + (D - gap) * fees u ks <= (D - gap) * (1024 * D * price u)) as Y; [|nia].
          assert (0 <= (1024 - e) * D + e * (D - gap)) as C0 by nia. assert (price u * X <= price u * (D - gap)) as Y1 by nia.
          pose proof (Z.mul_le_mono_nonneg_r _ _ _ C0 Y1). pose proof (Z.mul_le_mono_nonneg_l _ _ (D - gap) ltac:(lia) FE). nia. }
        assert (upto (fun u => D * paid u) t (t + D) = D * upto paid t (t + D)) as Y.
        { unfold upto. generalize (Z.to_nat (t + D - t)). intros n. generalize t. clear. induction n as [|n IH]; intros t; cbn [area]; [lia|]. rewrite IH. lia. }
        rewrite Y in Q. rewrite (upto_cut price t (t + D) last) in PN by lia. nia.
  Qed.
End Tolls.

(* The least that a request takes and pays, over all times of its first token and its end.

   Prices and fees are constant in slots of L units, from O on. In each slot the least is at one of its ends
   (`ends_le`), so a walk over the slots bounds what a request takes and pays if it ends in each. *)
Require Import ZArith List Bool Lia Spec OneMachine Tolls Tangent Apart.
Import ListNotations.
Open Scope Z_scope.

Section Ends.
  Variables O L : Z.
  Hypothesis L_pos : 0 < L.
  Definition slot_of u := Z.to_nat ((u - O) / L).
  Definition opens s := O + Z.of_nat s * L.
  Definition in_slots (l : list Z) u := if u <? O then 0 else nth (slot_of u) l 0.
  Lemma slot_bounds u : O <= u -> opens (slot_of u) <= u < opens (S (slot_of u)).
  Proof. intros H. unfold opens, slot_of. rewrite Nat2Z.inj_succ, Z2Nat.id by (apply Z.div_pos; lia).
    pose proof (Z.div_mod (u - O) L ltac:(lia)). pose proof (Z.mod_pos_bound (u - O) L L_pos). nia. Qed.
  Lemma slot_is s u : opens s <= u < opens (S s) -> slot_of u = s.
  Proof. intros H. unfold opens, slot_of in *. rewrite Nat2Z.inj_succ in H. replace ((u - O) / L) with (Z.of_nat s); [apply Nat2Z.id|].
    apply (Z.div_unique_pos _ _ _ (u - O - Z.of_nat s * L)); lia. Qed.
  Lemma opens_S s : opens (S s) = opens s + L. Proof. unfold opens. rewrite Nat2Z.inj_succ. ring. Qed.
  Lemma opens_mono s t : (s <= t)%nat -> opens s <= opens t. Proof. unfold opens. nia. Qed.
  Lemma opens_O s : O <= opens s. Proof. unfold opens. nia. Qed.
  Lemma in_slots_is l s u : opens s <= u < opens (S s) -> in_slots l u = nth s l 0.
  Proof. intros H. unfold in_slots. pose proof (opens_O s). destruct (Z.ltb_spec u O); [lia|]. now rewrite (slot_is s u H). Qed.
  Lemma in_slots_0 l : forallb (Z.leb 0) l = true -> forall u, 0 <= in_slots l u.
  Proof. rewrite forallb_forall. intros F u. unfold in_slots. destruct (u <? O); [lia|].
    destruct (nth_in_or_default (slot_of u) l 0) as [K| ->]; [|lia]. now apply Z.leb_le, F. Qed.

  (* A function that is constant in slots, and its values from slot s on. *)
  Section Steps.
    Variables (f : Z -> Z) (v : nat -> Z).
    Hypothesis steps : forall s u, opens s <= u < opens (S s) -> f u = v s.
    Definition from_slot s (l : list Z) := forall k, (k < length l)%nat -> nth k l 0 = v (s + k)%nat.
    Lemma from_cons s x l : from_slot s (x :: l) -> x = v s /\ from_slot (S s) l.
    Proof. intros H. split; [specialize (H 0%nat ltac:(cbn; lia)); cbn in H; now rewrite Nat.add_0_r in H|].
      intros k K. specialize (H (S k) ltac:(cbn; lia)). cbn in H. now rewrite Nat.add_succ_r in H. Qed.
    Fixpoint spend len x (l : list Z) := match l with [] => 0 | y :: l => if x <=? len then y * x else y * len + spend L (x - len) l end.
    Lemma spend_is l : forall s a x, from_slot s l -> opens s <= a <= opens (S s) -> 0 <= x -> a + x <= opens (s + length l) ->
      upto f a (a + x) = spend (opens (S s) - a) x l.
    Proof.
      induction l as [|y l IH]; intros s a x FR A X E; cbn [spend length] in *.
      - rewrite Nat.add_0_r in E. apply upto_none. lia.
      - destruct (from_cons _ _ _ FR) as [-> FR2]. destruct (Z.leb_spec x (opens (S s) - a)) as [Q|Q].
        + rewrite (upto_const f (v s)) by (lia || (intros; apply steps; lia)). f_equal. lia.
        + rewrite (upto_cut f a (opens (S s))) by lia. rewrite (upto_const f (v s)) by (lia || (intros; apply steps; lia)). f_equal.
          pose proof (opens_S (S s)) as OS. specialize (IH (S s) (opens (S s)) (x - (opens (S s) - a)) FR2 ltac:(lia) ltac:(lia)).
          replace (opens (S (S s)) - opens (S s)) with L in IH by lia. rewrite <- IH; [f_equal; lia|].
          rewrite Nat.add_succ_r in E. cbn [Nat.add]. lia.
    Qed.
    Fixpoint ends_from W acc len (l : list Z) := match l with [] => [] | y :: l =>
      let next := acc + len * (W - y) in Z.min acc next :: ends_from W next L l end.
    Lemma ends_le W l : forall s a acc k C, from_slot s l -> opens s <= a <= opens (S s) -> (k < length l)%nat -> a <= C ->
      opens (s + k) <= C <= opens (S (s + k)) -> nth k (ends_from W acc (opens (S s) - a) l) 0 <= acc + W * (C - a) - upto f a C.
    Proof.
      induction l as [|y l IH]; intros s a acc k C FR A K AC E; cbn [length] in K; [lia|]. destruct (from_cons _ _ _ FR) as [-> FR2]. cbn [ends_from].
      destruct k as [|k]; cbn [nth].
      - rewrite Nat.add_0_r in E. rewrite (upto_const f (v s)) by (lia || (intros; apply steps; lia)).
        destruct (Z.le_gt_cases (v s) W); [assert (0 <= (W - v s) * (C - a)) by nia; lia|].
        assert ((opens (S s) - a) * (W - v s) <= (C - a) * (W - v s)) by nia. lia.
      - rewrite Nat.add_succ_r in E. pose proof (opens_mono (S s) (S (s + k)) ltac:(lia)).
        specialize (IH (S s) (opens (S s)) (acc + (opens (S s) - a) * (W - v s)) k C FR2 ltac:(pose proof (opens_S (S s)); lia) ltac:(lia) ltac:(lia) E).
        replace (opens (S (S s)) - opens (S s)) with L in IH by (rewrite (opens_S (S s)); lia). etransitivity; [exact IH|].
        rewrite (upto_cut f a (opens (S s)) C) by lia. rewrite (upto_const f (v s) a) by (lia || (intros; apply steps; lia)). lia.
    Qed.
  End Steps.
  Lemma sum_slots l : forall s ps, (forall k, nth k l 0 = nth (s + k) ps 0) -> upto (in_slots ps) (opens s) (opens (s + length l)) = L * fold_right Z.add 0 l.
  Proof.
    induction l as [|y l IH]; intros s ps H; cbn [length fold_right].
    - rewrite Nat.add_0_r, upto_none; lia.
    - rewrite (upto_cut _ (opens s) (opens (S s))) by (split; apply opens_mono; lia). rewrite Nat.add_succ_r. change (S (s + length l)) with (S s + length l)%nat.
      rewrite (IH (S s) ps) by (intros k; specialize (H (S k)); cbn [nth] in H; now rewrite Nat.add_succ_r in H).
      rewrite (upto_const _ y); [rewrite opens_S; lia|rewrite opens_S; lia|]. intros u U. rewrite (in_slots_is ps s u U).
      specialize (H 0%nat). cbn [nth] in H. now rewrite Nat.add_0_r in H.
  Qed.
  Lemma nothing_before ps a : a <= O -> upto (in_slots ps) a O = 0.
  Proof. intros A. rewrite (upto_const _ 0); [lia|exact A|]. intros u U. unfold in_slots. destruct (Z.ltb_spec u O); [reflexivity|lia]. Qed.
  Lemma nothing_after ps b : opens (length ps) <= b -> upto (in_slots ps) (opens (length ps)) b = 0.
  Proof. intros B. rewrite (upto_const _ 0); [lia|exact B|]. intros u U. unfold in_slots. destruct (Z.ltb_spec u O); [reflexivity|]. apply nth_overflow.
    pose proof (slot_bounds u ltac:(lia)) as SB. destruct (Nat.le_gt_cases (length ps) (slot_of u)); [assumption|].
    pose proof (opens_mono (S (slot_of u)) (length ps) ltac:(lia)). lia. Qed.
  Lemma all_prices ps last : 0 <= O -> opens (length ps) <= last -> upto (in_slots ps) 0 last = L * fold_right Z.add 0 ps.
  Proof.
    intros O0 B. pose proof (opens_O (length ps)). rewrite (upto_cut _ 0 O) by lia. rewrite (upto_cut _ O (opens (length ps))) by lia.
    rewrite nothing_before, nothing_after by assumption. pose proof (sum_slots ps 0 ps ltac:(reflexivity)) as S. cbn [Nat.add] in S.
    unfold opens at 1 in S. cbn [Z.of_nat] in S. replace (O + 0 * L) with O in S by lia. lia.
  Qed.
End Ends.

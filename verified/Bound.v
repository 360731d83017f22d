(* The theorem: no valid schedule is below a bound that the checker takes. *)
Require Import ZArith List Bool Lia Permutation Spec Referee Model Check Sound.
Import ListNotations.
Open Scope Z_scope.

Definition offset I o := match o with Flow | Weighted | Ttft => sum (fun s => weigh o s * arrived s) (initial I) | _ =>
  0 end.
Definition check I o bound scale rows hash leb table kept :=
  (0 <? scale) && accepts I o scale (scale * (bound + offset I o - 1) + 1) rows hash leb table kept.

Lemma start_sum I o : summed o -> sum (at_now (end_of o) (weigh o) 0) (initial I) = 0.
Proof. intros S. unfold initial. induction (requests I) as [|r rs IH]; cbn [map sum fold_right]; [reflexivity|].
  unfold sum in IH. rewrite IH. unfold at_now. destruct o; cbn; lia. Qed.
Lemma start_good I : forallb (fun r => 0 <=? weight r) (requests I) = true -> good (initial I).
Proof.
  unfold good, initial. induction (requests I) as [|r rs IH]; cbn [map forallb]; [constructor|].
    rewrite andb_true_iff, Z.leb_le. intros [A B].
  constructor; [exact A|now apply IH].
Qed.
Lemma start_inv I : Forall inv (initial I).
Proof. unfold initial. induction (requests I); cbn [map]; constructor; [unfold inv; cbn; congruence|assumption]. Qed.
Lemma split_sum f (g : state -> Z) zz : sum (fun z => f z - g z) zz = sum f zz - sum g zz.
Proof. unfold sum. induction zz as [|z zz IH]; cbn; [reflexivity|]. lia. Qed.
Lemma sum_ext (f g : state -> Z) zz : (forall z, f z = g z) -> sum f zz = sum g zz.
Proof. intros H. unfold sum. induction zz as [|z zz IH]; cbn; [reflexivity|]. now rewrite H, IH. Qed.
Lemma last_nonneg zz : 0 <= last_end zz.
Proof. unfold last_end. induction zz; cbn [fold_right]; lia. Qed.

Lemma value_meter I o bs zz d : run I 0 (initial I) bs zz d -> Forall R11 zz
  -> meter I o 0 (initial I) bs <= value o zz d + offset I o.
Proof.
  intros R F.
  assert (Forall (fun z => end_of o z <> None) zz) as FE.
  { pose proof (run_inv _ _ _ _ _ _ R (start_inv I)) as V. rewrite Forall_forall in *. intros z K. specialize (F z K).
    specialize (V z K). unfold R11, inv in *. destruct o; cbn; tauto. }
  assert (summed o -> value o zz d = sum (fun z => weigh o z * at_ (end_of o z)) zz - sum (fun z => weigh o z * arrived
    z) zz) as V.
  { intros S. rewrite <- split_sum. destruct o; try destruct S; cbn [value]; apply sum_ext; intros z;
    cbn [weigh end_of]; lia. }
  assert (summed o -> meter I o 0 (initial I) bs <= value o zz d + offset I o) as Sums.
  { intros S. rewrite (V S), (meter_sum _ _ _ _ _ _ _ S R FE), (start_sum I o S), (run_arrived _ _ _ _ _ _ o R).
    destruct o; try destruct S; cbn [offset]; lia. }
  destruct o; try (apply Sums; exact Logic.I); cbn [offset].
  - rewrite Z.add_0_r. change (value Makespan zz d) with (last_end zz). destruct (existsb undone (initial I)) eqn:U.
    + assert (existsb undone zz = false) as N.
      { apply not_true_iff_false. intros X. apply existsb_exists in X. destruct X as (z & K & X).
        rewrite Forall_forall in F. specialize (F z K).
        unfold R11, undone in *. destruct (over z); [discriminate|congruence]. }
      pose proof (meter_makespan _ _ _ _ _ _ R U N). lia.
    + rewrite (done_meter _ _ _ _ _ _ R U). apply last_nonneg.
  - rewrite (run_busy _ _ _ _ _ _ R). cbn [value]. lia.
Qed.

Theorem certified I o bound scale rows hash leb table kept : check I o bound scale rows hash leb table kept = true ->
  forall schedule v, valid I schedule o v -> bound <= v.
Proof.
  unfold check, accepts. rewrite !andb_true_iff, Z.ltb_lt. intros [S C] bs v (zz & d & R & F & ->).
  destruct C as [[[[[[[[A B] W] RS] RO] RM] T] K] ST]. apply Z.leb_le in A.
  assert (rows = [] \/ steady I o = true) as RS2 by (destruct rows; tauto).
  assert (Permutation (map (norm (timed o) 0) (initial I)) (origin I o leb)) as PS by (unfold origin;
    now rewrite sort_perm).
  set (target := scale * (bound + offset I o - 1) + 1) in *.
  assert (clk rows 0 = 0) as C0 by (unfold clk; destruct rows; reflexivity).
  assert (bounded I o target rows hash table kept (clk rows 0) (origin I o leb) 0 = true) as ST2 by (rewrite C0;
    exact ST).
  assert (0 < block (mach I)) as Q by lia. assert (0 <= scale) as S0 by lia.
  pose proof (closed_run I o scale target rows hash leb table kept RO Q S0 T RS2 K 0 (initial I) bs zz d R (Z.le_refl 0)
    F (start_good I W) RM 0 _ PS ST2) as X.
  pose proof (value_meter _ o _ _ _ R F) as V. unfold target in X. nia.
Qed.
Corollary no_schedule_below I o bound scale rows hash leb table kept : check I o bound scale rows hash leb table kept =
  true ->
  forall schedule v, referee I schedule o = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified _ _ _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.
Print Assumptions no_schedule_below.

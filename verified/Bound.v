(* The theorem: no valid schedule is below a bound that the checker takes.

   The closed set starts with the state at tick 0, and the target is the bound in units of 1/scale of the objective, one
   unit above the value before it. The potentials are vectors of prices, as many as one likes. *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check Prices Closed.
Import ListNotations.
Open Scope Z_scope.

Definition offset I o := match o with Flow | Weighted | Ttft => sum (fun s => weigh o s * arrived s) (initial I) | _ =>
  0 end.

Record vector := Vector { rows : list row; table : list entry }.
Fixpoint lefts M rows := match rows with [] => [] | r :: rs => supply M r + hd 0 (lefts M rs) :: lefts M rs end.
Lemma lefts_left M rows : forall n, nth n (lefts M rows) 0 = sum (supply M) (skipn n rows).
Proof.
  induction rows as [|r rs IH]; intros [|n]; try reflexivity; [|apply IH]. cbn [lefts nth skipn sum fold_right].
  specialize (IH 0%nat). rewrite skipn_O in IH. unfold sum in IH. rewrite <- IH. now destruct (lefts M rs).
Qed.
Definition pot := (list Z * PositiveMap.t (list entry))%type.
Definition prepare I hash v : pot := (lefts (mach I) (rows v), build hash (table v)).
Definition potential hash (p : pot) k s := P hash (snd p) k s.
Definition to_come (p : pot) k := nth (Z.to_nat k) (fst p) 0.
Definition vector_ok I o scale hash v :=
  forallb (row_ok (mach I)) (rows v) && forallb (entry_ok I o scale (rows v) hash (table v)) (table v).
Definition target_of I o bound scale := scale * (bound + offset I o - 1) + 1.
Definition check I o bound scale leb hash vectors kept :=
  (0 <? scale) && (1 <=? block (mach I)) && forallb (fun r => 0 <=? weight r) (requests I)
  && fitsb (mach I) (all_held (mach I) (initial I)) && match vectors with [] => true | _ => steady I o end
  && forallb (vector_ok I o scale hash) vectors
  && let km := build hash kept in let ps := map (prepare I hash) vectors in let target := target_of I o bound scale in
     forallb (kept_ok I o scale target leb hash km pot ps (potential hash) to_come) kept
     && bounded target hash km pot ps (potential hash) to_come 0 (origin I o leb) 0.

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

Theorem certified I o bound scale leb hash vectors kept : check I o bound scale leb hash vectors kept = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  unfold check. rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le. intros [[[[[[S Q] W] RM] ST] VS] [K B]] bs v (zz & d & R & F & ->).
  set (target := target_of I o bound scale) in *. set (ps := map (prepare I hash) vectors) in *.
  assert (ps = [] \/ steady I o = true) as PS by (unfold ps; destruct vectors; [now left|now right]).
  assert (forall k ss b, pick hash (build hash kept) k ss = Some b -> In (Entry k ss b) kept) as KI by (intros; eapply pick_in; eauto).
  assert (forall p, In p ps -> forall now ss bs zz d, run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss ->
    room I ss -> worth_of pot (potential hash) to_come p now (map (norm true now) ss) <= scale * meter I o now ss bs) as SD.
  { intros p H now ss bs' zz' d' R' N F' G RM'. apply in_map_iff in H. destruct H as (w & <- & H).
    rewrite forallb_forall in VS. specialize (VS w H). unfold vector_ok in VS. apply andb_true_iff in VS. destruct VS as [V1 V2].
    assert (steady I o = true) as ST' by (destruct vectors; [destruct H|exact ST]).
    pose proof (worth_run I o scale (rows w) hash (table w) V1 ltac:(lia) ltac:(lia) V2 now ss bs' zz' d' ST' R' N F' G RM') as X.
    unfold worth_of, to_come, potential, prepare. cbn [fst snd]. rewrite lefts_left. exact X. }
  assert (Permutation (map (norm (timed o) 0) (initial I)) (origin I o leb)) as OP by (unfold origin; now rewrite sort_perm).
  assert (clk pot ps 0 = 0) as C0 by (unfold clk; destruct (clocked pot ps); reflexivity).
  rewrite <- C0 in B at 1.
  pose proof (bounded_cases I o scale target leb hash kept (build hash kept) pot ps (potential hash) to_come KI K PS SD 0 (initial I) _ 0 OP B) as X.
  pose proof (closed_run I o scale target leb hash kept (build hash kept) pot ps (potential hash) to_come
    ltac:(lia) ltac:(lia) KI K PS SD 0 (initial I) bs zz d R (Z.le_refl 0) F (start_good I W) RM 0 X) as Y.
  pose proof (value_meter _ o _ _ _ R F) as V. cbn [result]. unfold target, target_of in Y. nia.
Qed.
Corollary no_schedule_below I o bound scale leb hash vectors kept : check I o bound scale leb hash vectors kept = true ->
  forall schedule v, referee I schedule (Whole o) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified _ _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.
Print Assumptions no_schedule_below.

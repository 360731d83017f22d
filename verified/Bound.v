(* The theorem: no valid schedule is below a bound that the checker takes.

   The closed set starts with the state at tick 0, and the target is the bound in units of 1/scale of the objective, one
   unit above the value before it. The potentials are vectors of prices, as many as one likes. *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check Prices Slots.
Import ListNotations.
Open Scope Z_scope.

Definition offset I o := match o with Flow | Weighted | Ttft => sum (fun s => weigh o s * arrived s) (initial I) | _ =>
  0 end.

Definition target_of I o bound scale := scale * (bound + offset I o - 1) + 1.
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

(* By prices of slots, if every batch lasts a tick. *)
Record price := Price { from : nat; ticks : nat; costs : list row }.  (* in use from a tick on, for so many *)
Definition check_slots I o bound scale strict nodes names hash hashes steer prices LL :=
  (0 <? scale) && (1 <=? block (mach I)) && forallb (fun r => 0 <=? weight r) (requests I)
  && fitsb (mach I) (all_held (mach I) (initial I)) && steady I o
  && forallb (node_ok I strict nodes) (items nodes [])
  && forallb (forallb (name_ok I o strict nodes names hash)) (items names [])
  && forallb (fun p => forallb (row_ok (mach I)) (costs p)) prices
  && forallb (fun s => some (name names hash (norm true 0 s))) (initial I)
  && let target := target_of I o bound scale in
     let vs := map (fun p => Vector (from p) (ticks p) (layers_of I scale nodes (costs p))) prices in
     let start := map (fun s => match name names hash (norm true 0 s) with Some n => n | None => O end) (initial I) in
     settled target nodes hashes steer (now_of vs) (hd Tip LL) start 0
     && closed I o scale target strict nodes hashes steer vs LL.
Theorem certified_by_slots I o bound scale strict nodes names hash hashes steer prices LL :
  check_slots I o bound scale strict nodes names hash hashes steer prices LL = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  unfold check_slots. cbv zeta. rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le.
  intros [[[[[[[[[S Q] W] RM] ST] NO] NA] PR] NM] [B C]] bs v (zz & d & R & F & ->).
  set (vs := map _ prices) in *. set (start := map _ (initial I)) in *.
  assert (Forall (vector_sound I o scale nodes names hash) vs) as VS.
  { apply Forall_forall. intros w H. apply in_map_iff in H. destruct H as (p & <- & H). rewrite forallb_forall in PR.
    specialize (PR p H). intros x X. cbn [layers] in X. clear - X PR Q S ST NO NA. revert x X.
    induction (costs p) as [|r rows IH]; cbn [layers_of]; [intros x []|]. intros x [<-|X].
    - exact (sound_layers I o scale strict nodes names hash ltac:(lia) ltac:(lia) ST NO NA (r :: rows) PR).
    - apply IH; [|exact X]. cbn [forallb] in PR. now apply andb_true_iff in PR. }
  assert (Forall2 (stands nodes names hash) (map (norm true 0) (initial I)) start) as SS.
  { unfold start. clear - NM. induction (initial I) as [|s ss IH]; cbn [map]; constructor.
    - cbn [forallb] in NM. apply andb_true_iff in NM. destruct NM as [A _].
      destruct (name names hash (norm true 0 s)) as [n|] eqn:E; [now apply by_name|discriminate].
    - apply IH. cbn [forallb] in NM. now apply andb_true_iff in NM. }
  assert (0 < block (mach I)) as BK by lia. assert (0 <= scale) as SC by lia.
  pose proof (settled_reaches I o scale _ nodes names hash hashes SC steer _ _ _ _
    (now_sound I o scale strict nodes names hash BK SC ST NO NA vs VS)
    (closed_reaches I o scale _ strict nodes names hash hashes BK SC ST NO NA steer LL vs VS C) B) as X.
  specialize (X 0 (initial I) start bs zz d R F (start_good I W) RM SS (Permutation_refl start)). cbn [fst snd] in X.
  pose proof (value_meter _ o _ _ _ R F) as V. cbn [result]. unfold target_of in X. nia.
Qed.
Corollary no_schedule_below_slots I o bound scale strict nodes names hash hashes steer prices LL :
  check_slots I o bound scale strict nodes names hash hashes steer prices LL = true ->
  forall schedule v, referee I schedule (Whole o) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified_by_slots _ _ _ _ _ _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.

(* By states alone. *)
Require Import Closed.
Definition nothing (p : Empty_set) (k : Z) := 0.
Definition check I o bound leb hash kept :=
  (1 <=? block (mach I)) && forallb (fun r => 0 <=? weight r) (requests I) && fitsb (mach I) (all_held (mach I) (initial I))
  && let km := build hash kept in let target := target_of I o bound 1 in
     forallb (kept_ok I o 1 target leb hash km Empty_set [] (fun p k _ => nothing p k) nothing) kept
     && bounded target hash km Empty_set [] (fun p k _ => nothing p k) nothing 0 (origin I o leb) 0.
Theorem certified I o bound leb hash kept : check I o bound leb hash kept = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  unfold check. cbv zeta. rewrite !andb_true_iff, Z.leb_le. intros [[[Q W] RM] [K B]] bs v (zz & d & R & F & ->).
  set (target := target_of I o bound 1) in *. set (q := fun (p : Empty_set) k (_ : state) => nothing p k) in *.
  assert (forall k ss b, pick hash (build hash kept) k ss = Some b -> In (Entry k ss b) kept) as KI by (intros; eapply pick_in; eauto).
  assert (forall p, In p [] -> forall now ss bs zz d, run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss ->
    room I ss -> worth_of Empty_set q nothing p now (map (norm true now) ss) <= 1 * meter I o now ss bs) as SD by (intros p []).
  assert (Permutation (map (norm (timed o) 0) (initial I)) (origin I o leb)) as OP by (unfold origin; now rewrite sort_perm).
  pose proof (bounded_cases I o 1 target leb hash kept (build hash kept) Empty_set [] q nothing KI K (or_introl eq_refl) SD 0 (initial I) _ 0 OP B) as X.
  pose proof (closed_run I o 1 target leb hash kept (build hash kept) Empty_set [] q nothing
    ltac:(lia) ltac:(lia) KI K (or_introl eq_refl) SD 0 (initial I) bs zz d R (Z.le_refl 0) F (start_good I W) RM 0 X) as Y.
  pose proof (value_meter _ o _ _ _ R F) as V. cbn [result]. unfold target, target_of in Y. lia.
Qed.
Corollary no_schedule_below I o bound leb hash kept : check I o bound leb hash kept = true ->
  forall schedule v, referee I schedule (Whole o) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified _ _ _ _ _ _ C bs). now apply referee_iff. Qed.
Print Assumptions no_schedule_below.
Print Assumptions no_schedule_below_slots.

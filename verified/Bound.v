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
  constructor; [split; [exact A|unfold inv; cbn; congruence]|now apply IH].
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
Section By_slots.
  Variable I : instance.
  Variable o : objective.
  Variable scale target : Z.
  Variable strict : bool.
  Variable nodes : search_tree node.
  Variable names : search_tree (list (state * nat)).
  Variable hash : state -> nat.
  Variable hashes : list nat -> nat.
  Definition latest_of first dd := fold_left (fun (_ : option (list Z)) (d : list row * list Z) => Some (snd d)) dd first.
  Definition steps_of deadlines p := layers_of I scale nodes deadlines (Z.of_nat (from p)) zero (costs p).
  Fixpoint narrowed start deadlines dd := match dd with [] => true | (rows, d) :: dd => forallb (row_ok (mach I)) rows
    && tightens scale target nodes deadlines (snd (hd off (layers_of I scale nodes deadlines 0 zero rows))) start d
    && narrowed start (Some d) dd end.
  Definition start_nodes := map (fun s => match name names hash (norm true 0 s) with Some n => n | None => O end) (initial I).
  Definition no_run first prices dd depth choose :=  (* that obeys the first deadlines costs less than the target *)
    (0 <? scale) && (1 <=? block (mach I)) && forallb (fun r => 0 <=? weight r) (requests I)
    && fitsb (mach I) (all_held (mach I) (initial I)) && steady I o
    && forallb (node_ok I strict nodes) (items nodes [])
    && forallb (forallb (name_ok I o strict nodes names hash)) (items names [])
    && forallb (fun p => forallb (row_ok (mach I)) (costs p)) prices
    && forallb (fun s => some (name names hash (norm true 0 s))) (initial I)
    && narrowed start_nodes first dd
    && let vs := map (fun p => Vector (from p) (ticks p) (steps_of (latest_of first dd) p)) prices in
       let L := choose vs [[(0, [start_nodes])]] in
       settled target nodes hashes (now_of vs) L start_nodes 0 && closed I o scale target strict nodes hashes choose depth vs L.
  Lemma no_run_below first prices dd depth choose bs zz d : no_run first prices dd depth choose = true -> run I 0 (initial I) bs zz d -> Forall R11 zz ->
    (length zz = length start_nodes -> Forall2 (timely o nodes first) zz start_nodes) -> target <= scale * meter I o 0 (initial I) bs.
  Proof.
    unfold no_run. cbv zeta. rewrite !andb_true_iff, Z.ltb_lt, Z.leb_le.
    intros [[[[[[[[[[S Q] W] RM] ST] NO] NA] PR] NM] NW] [B C]] R F T.
    assert (0 < block (mach I)) as BK by lia. assert (0 <= scale) as SC by lia.
    assert (Forall2 (stands nodes names hash) (map (norm true 0) (initial I)) start_nodes) as SS.
    { unfold start_nodes. clear - NM. induction (initial I) as [|s ss IH]; cbn [map]; constructor.
      - cbn [forallb] in NM. apply andb_true_iff in NM. destruct NM as [A _].
        destruct (name names hash (norm true 0 s)) as [n|] eqn:E; [now apply by_name|discriminate].
      - apply IH. cbn [forallb] in NM. now apply andb_true_iff in NM. }
    apply Z.le_ngt. intros LOW. pose proof (start_good I W) as G.
    assert (Forall2 (timely o nodes (latest_of first dd)) zz start_nodes) as T'.
    { clear B C. unfold latest_of.
      specialize (T ltac:(rewrite <- (same_length _ _ _ SS), map_length; symmetry; exact (same_length _ _ _ (run_ends I o ST _ _ _ _ _ R)))).
      revert NW T. generalize first. induction dd as [|[rows l] dd IH]; intros deadlines NW T; cbn [fold_left]; [exact T|].
      cbn [narrowed] in NW. rewrite !andb_true_iff in NW. destruct NW as [[RO K] NW]. apply IH; [exact NW|].
      pose proof (sound_layers I o scale strict nodes names hash deadlines BK SC ST NO NA _ RO 0 zero) as SD.
      pose proof (tightened I o scale target strict nodes names hash hashes deadlines SC ST NO NA _ _ _ _ _ _ l SD R F G RM
        ltac:(unfold initial; clear; induction (requests I); constructor; [now destruct o|assumption]) SS T K LOW) as X.
      clear - X. induction X as [|z n zz nn X _ IX]; constructor; [|exact IX]. intros l' [= <-]. exact X. }
    set (vs := map _ prices) in *.
    assert (Forall (vector_sound I o scale nodes names hash (latest_of first dd) 0) vs) as VS.
    { apply Forall_forall. intros w H. apply in_map_iff in H. destruct H as (p & <- & H). rewrite forallb_forall in PR.
      exact (layers_sound I o scale strict nodes names hash (latest_of first dd) BK SC ST NO NA _ (PR p H) _ zero (zero_ok I)). }
    pose proof (settled_reaches I o scale target strict nodes names hash hashes (latest_of first dd) SC ST NO 0 _ _ _ _ (Z.le_refl 0)
      (fun p H => proj2 (now_sound I o scale strict nodes names hash (latest_of first dd) BK SC ST NO NA 0 vs VS p H))
      (closed_reaches I o scale target strict nodes names hash hashes (latest_of first dd) BK SC ST NO NA choose depth _ 0 vs (Z.le_refl 0) VS C) B
      (initial I) start_nodes bs zz d R F G RM SS T' (Permutation_refl _)) as X. cbn [snd] in X. lia.
  Qed.
End By_slots.
Definition check_slots I o bound scale strict nodes names hash hashes prices dd depth choose :=
  no_run I o scale (target_of I o bound scale) strict nodes names hash hashes None prices dd depth choose && (0 <=? scale).
Theorem certified_by_slots I o bound scale strict nodes names hash hashes prices dd depth choose :
  check_slots I o bound scale strict nodes names hash hashes prices dd depth choose = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  intros [C P]%andb_true_iff bs v (zz & d & R & F & ->). apply Z.leb_le in P.
  pose proof (no_run_below _ _ _ _ _ _ _ _ _ None _ _ _ _ _ _ _ C R F) as X. pose proof (value_meter _ o _ _ _ R F) as V.
  cbn [result]. unfold target_of in X. apply Z.le_ngt. intros LT.
  assert (scale * (bound + offset I o - 1) + 1 <= scale * meter I o 0 (initial I) bs); [apply X|nia].
  intros L. apply (by_place _ (start_of (Request 0 0 0 0 [])) O _ _ L). intros i _ l [=].
Qed.
Corollary no_schedule_below_slots I o bound scale strict nodes names hash hashes prices dd depth choose :
  check_slots I o bound scale strict nodes names hash hashes prices dd depth choose = true ->
  forall schedule v, referee I schedule (Whole o) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified_by_slots _ _ _ _ _ _ _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.

(* The largest flow time: below the bound all requests would obey deadlines, which no run does: it would cost more than
   all ends at their deadlines. *)
Definition all_late I bound := Z.of_nat (length (initial I)) * (bound - 1) + offset I Flow + 1.
Definition check_longest I bound strict nodes names hash hashes deadlines prices dd depth choose :=
  no_run I Flow 1 (all_late I bound) strict nodes names hash hashes (Some deadlines) prices dd depth choose
  && forallb (fun s => match name names hash (norm true 0 s) with
       | Some n => arrived s + bound - 1 <=? latest deadlines (at_node nodes n) | None => false end) (initial I).
Lemma run_places I now ss bs zz d : run I now ss bs zz d -> Forall2 (fun s z => arrived z = arrived s) ss zz.
Proof.
  induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; [induction ss; constructor; trivial|].
  clear - L IH. revert IH. generalize (t + D). intros E. revert zz. induction L as [|s a ss aa L _ IL]; intros zz F; inversion F; subst; constructor; [|now apply IL].
  destruct (step_wt (mach I) s a E). congruence.
Qed.
Lemma place_most x xs : In x xs -> exists m l, fold_right place [] xs = m :: l /\ x <= m.
Proof.
  induction xs as [|y ys IH]; [intros []|]. cbn [fold_right]. intros H. destruct (fold_right place [] ys) as [|m l].
  - exists y, []. split; [reflexivity|]. destruct H as [->|H]; [lia|]. destruct (IH H) as (? & ? & [=] & _).
  - exists (Z.max y m), (place (Z.min y m) l). split; [reflexivity|]. destruct H as [->|H]; [lia|]. destruct (IH H) as (? & ? & [= <- <-] & X). lia.
Qed.
Theorem certified_longest I bound strict nodes names hash hashes deadlines prices dd depth choose :
  check_longest I bound strict nodes names hash hashes deadlines prices dd depth choose = true ->
  forall schedule v, valid I schedule (Tail false 0) v -> bound <= v.
Proof.
  intros [C K]%andb_true_iff bs v (zz & d & R & F & ->). apply Z.le_ngt. intros LT. cbn [result] in LT.
  assert (forall z, In z zz -> exists c, over z = Some c /\ c - arrived z <= bound - 1) as E.
  { intros z Z. rewrite Forall_forall in F. specialize (F z Z). unfold R11 in F. destruct (over z) as [c|] eqn:X; [|congruence].
    exists c. split; [reflexivity|]. destruct (place_most _ _ (in_map (fun s => at_ (over s) - arrived s) _ _ Z)) as (m & l & Y & W).
    rewrite Y in LT. cbn [nth] in LT. rewrite X in W. cbn [at_] in W. lia. }
  pose proof (run_places _ _ _ _ _ _ R) as P. pose proof (no_run_below _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ C R F) as X.
  assert (all_late I bound <= 1 * meter I Flow 0 (initial I) bs) as Y.
  { apply X. intros _. unfold start_nodes. clear - E P K. induction P as [|s z ss zz A _ IH]; cbn [map]; constructor.
    - cbn [forallb] in K. apply andb_true_iff in K. destruct K as [K _]. destruct (name _ _ _) as [n|]; [|discriminate].
      apply Z.leb_le in K. intros l [= <-]. destruct (E z (or_introl eq_refl)) as (c & C1 & C2). exists c. split; [exact C1|]. lia.
    - cbn [forallb] in K. apply andb_true_iff in K. apply IH; [apply K|intros y H; apply E; now right]. }
  pose proof (value_meter _ Flow _ _ _ R F) as V. cbn [value] in V. unfold all_late in Y. rewrite (same_length _ _ _ P) in Y.
  assert (sum (fun s => at_ (over s) - arrived s) zz <= Z.of_nat (length zz) * (bound - 1)); [|lia].
  clear - E. induction zz as [|z zz IH]; cbn [sum fold_right length]; [lia|]. unfold sum in IH. specialize (IH (fun y H => E y (or_intror H))).
  destruct (E z (or_introl eq_refl)) as (c & -> & C2). cbn [at_]. lia.
Qed.
Corollary no_longest_below I bound strict nodes names hash hashes deadlines prices dd depth choose :
  check_longest I bound strict nodes names hash hashes deadlines prices dd depth choose = true ->
  forall schedule v, referee I schedule (Tail false 0) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified_longest _ _ _ _ _ _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.

(* By states alone. *)
Require Import Early Closed.
Definition check I o bound leb hash steer kept := (1 <=? block (mach I)) && forallb (fun r => 0 <=? weight r) (requests I)
  && let km := build hash kept in let target := target_of I o bound 1 in
     forallb (fun e => kept_ok I o target leb hash steer km (states e) (mark_of e)) kept && bounded o target hash steer km (origin I o leb) 0.
Theorem certified I o bound leb hash steer kept : check I o bound leb hash steer kept = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  unfold check. cbv zeta. rewrite !andb_true_iff, Z.leb_le. intros [[Q W] [K B]] bs v (zz & d & R & F & ->).
  pose proof (bounded_run I o _ leb hash steer kept _ (fun ss b => pick_in hash kept 0 ss b) K _ 0 _ bs zz d 0
    (kept_run I o _ leb hash steer kept _ ltac:(lia) (fun ss b => pick_in hash kept 0 ss b) K (length bs)) eq_refl R F (start_good I W) B) as Y.
  pose proof (value_meter _ o _ _ _ R F) as V. cbn [result]. unfold target_of in Y. lia.
Qed.
Corollary no_schedule_below I o bound leb hash steer kept : check I o bound leb hash steer kept = true ->
  forall schedule v, referee I schedule (Whole o) = Some v -> bound <= v.
Proof. intros C bs v H. apply (certified _ _ _ _ _ _ _ C bs). now apply referee_iff. Qed.
(* No objective but late requests loses if batches start when something happens. *)
Lemma place_le x y xs ys : x <= y -> Forall2 Z.le xs ys -> Forall2 Z.le (place x xs) (place y ys).
Proof. intros H F. revert x y H. induction F as [|a b xs ys A _ IH]; intros x y H; cbn [place]; constructor; [exact H|constructor|lia|apply IH; lia]. Qed.
Theorem early I g bs v : match g with Late _ => False | _ => True end -> forallb (fun r => 0 <=? weight r) (requests I) = true ->
  valid I bs g v -> exists bs' v', valid I bs' g v' /\ v' <= v /\ prompt_starts I 0 (initial I) bs'.
Proof.
  intros NL W (zz & d & R & F & ->). pose proof (start_good I W) as G.
  assert (Forall2 (as_early true 0 0) (initial I) (initial I)) as AE.
  { clear. induction (initial I) as [|s ss IH]; constructor; [|exact IH]. destruct s. unfold as_early, no_later. cbn. repeat split; try lia; destruct first, over; cbn; lia. }
  destruct (early_run I Flow true _ _ _ _ _ R G 0 0 _ (Z.le_refl 0) AE) as (bs' & zz' & R' & PS & _ & (z & E) & _).
  assert (good zz) as GZ by (clear - R G; induction R; [exact G|]; now apply IHR, good_next). clear AE G W R.
  exists bs', (result g zz' d). split; [exists zz', d; split; [exact R'|split; [|reflexivity]]|split; [|exact PS]]; clear R' PS.
  - clear - E F. induction E as [|p s pp ss (_ & _ & _ & (O & _) & _) _ IH]; inversion F; subst; constructor; [|now apply IH]. unfold R11 in *. destruct (over p), (over s); easy.
  - assert (Forall2 (fun p s => at_ (first p) <= at_ (first s) /\ at_ (over p) <= at_ (over s) /\ arrived p = arrived s /\ wt p = wt s /\ 0 <= wt s) zz' zz) as X.
    { clear - E GZ. induction E as [|p s pp ss (<- & _ & (_ & A) & (_ & B) & C) _ IH]; inversion GZ as [|x y [D _] K]; subst; constructor; [|now apply IH].
      specialize (A eq_refl). specialize (B eq_refl). specialize (C eq_refl). cbn [first over arrived wt] in *.
      assert (forall b, if0 b 0 = 0) as Q by now intros []. rewrite Q in A, B. repeat split; try lia; assumption. }
    clear - X NL. destruct g as [[]|f n|]; try easy; cbn [result value].
    + induction X as [|p s pp ss H _ IH]; cbn [fold_right]; lia.
    + induction X as [|p s pp ss H _ IH]; unfold sum in *; cbn [fold_right]; lia.
    + induction X as [|p s pp ss H _ IH]; unfold sum in *; cbn [fold_right]; nia.
    + induction X as [|p s pp ss H _ IH]; unfold sum in *; cbn [fold_right]; lia.
    + assert (forall xs ys, Forall2 Z.le xs ys -> nth n xs 0 <= nth n ys 0) as N.
      { clear. intros xs ys Q. revert n. induction Q; intros [|n]; cbn [nth]; try lia. apply IHQ. }
      apply N. induction X as [|p s pp ss H _ IH]; cbn [map fold_right]; [constructor|]. apply place_le; [destruct f; lia|exact IH].
Qed.
Print Assumptions no_schedule_below.
Print Assumptions no_schedule_below_slots.
Print Assumptions no_longest_below.
Print Assumptions early.

(* Closed sets of states: each with its cost so far; each batch that starts now, or when a request that takes part becomes
   ready, reaches the target or leads to another one at no higher cost. If that one has requests that are ready later, by so
   many ticks, it waits as long. Then no run from the first state costs less than the target. *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check Prices Slots Early.
Import ListNotations.
Open Scope Z_scope.

(* The batches of a state, request by request. *)
Fixpoint every M (f : load -> list act -> bool) (os : list (list (act * load))) l aa {struct os} := match os with
  | [] => f l aa
  | o :: os => forallb (fun x => let l := plus l (snd x) in if fitsb M l then every M f os l (fst x :: aa) else true) o
  end.
Lemma every_sound M f ss aa : 0 < block M -> Forall2 (local M 0) ss aa -> forall l bb, most none l ->
  every M f (map (opts M) ss) l bb = true -> fitsb M (plus l (total M ss aa)) = true -> f (plus l (total M ss aa)) (rev aa ++ bb) = true.
Proof.
  intros Q. induction 1 as [|s a ss aa L LL IH]; intros l bb N E F; cbn [map every total rev app] in *.
  - now rewrite plus_comm, plus_none in *.
  - pose proof (load_nonneg _ _ _ _ Q L) as N1. pose proof (total_nonneg _ _ _ _ Q LL) as N2.
    assert (fitsb M (plus l (load_of M s a)) = true) as F1 by (eapply fits_most; [|exact F]; rewrite <- plus_assoc; now apply most_none_r).
    assert (fitsb M (load_of M s a) = true) as F2 by (eapply fits_most; [|exact F1]; now apply most_none_l).
    rewrite forallb_forall in E. specialize (E _ (in_opts M (local_iff M) _ _ L F2)). cbn [fst snd] in E. rewrite F1 in E.
    rewrite <- plus_assoc in *. rewrite <- app_assoc. apply IH; try assumption. rewrite <- (plus_none none). now apply most_plus.
Qed.

Section Closed.
  Variable I : instance.
  Variable o : objective.
  Variable target : Z.
  Variable leb : state -> state -> bool.  (* any functions: they steer what is found, not what is proved *)
  Variable hash : Z -> list state -> positive.
  Variable steer : list state -> Z -> list state.
  Variable kept : list entry.
  Variable km : PositiveMap.t (list entry).
  Let M := mach I.
  Definition waits ss := nodup Z.eq_dec (filter (fun w => 0 <? w) (map ready ss)).
  Definition lag kk ss := fold_right (fun x => Z.max (ready (fst x) - ready (snd x))) 0 (combine kk ss).
  Definition alike p s := state_eqb p (State (known s) (device s) (host s) (todo s) (rest s) (ready p) (window s) (due s) (going s)
    (first s) (over s) (arrived s) (wt s)).
  Definition bounded ss b := (target <=? b) || let kk := steer ss b in match pick hash km 0 kk with
    | Some b' => list_eqb alike kk ss && (b' + rate o kk * lag kk ss <=? b) | None => false end.
  Definition batch_ok w ss b l aa := negb (jointb M l) || let aa := rev aa in let D := lasts (cost I) l in
    negb ((w =? 0) || existsb (fun x => active (snd x) && (ready (fst x) =? w)) (combine ss aa))
    || let ss := map (norm (timed o) w) ss in bounded (sort leb (map (norm (timed o) D) (nexts M D ss aa))) (b + fee o ss D).
  Definition kept_ok ss b := (target <=? b) || negb (forallb (fun s => some (over s)) ss) && forallb (fun w => let b := b + rate o ss * w in
    (target <=? b) || every M (batch_ok w ss b) (map (opts M) (map (norm (timed o) w) ss)) none []) (0 :: waits ss).
  Definition origin := sort leb (map (norm (timed o) 0) (initial I)).

  Hypothesis block_ok : 0 < block M.
  Hypothesis kept_in : forall ss b, pick hash km 0 ss = Some b -> In (Entry 0 ss b) kept.
  Hypothesis kept_all : forallb (fun e => kept_ok (states e) (mark_of e)) kept = true.

  Lemma rate_perm ss kk : Permutation ss kk -> rate o ss = rate o kk.
  Proof.
    intros H. unfold rate. destruct o; try reflexivity; try now apply sum_perm. f_equal.
    induction H; cbn; [reflexivity|now rewrite IHPermutation| |congruence].
      now rewrite !orb_assoc, (orb_comm (negb (some (over y)))).
  Qed.
  Lemma batch_perm ss kk : Permutation ss kk -> forall t aa, Forall2 (local M t) ss aa
    -> exists bb, Forall2 (local M t) kk bb /\ total M kk bb = total M ss aa /\ forall E, Permutation (nexts M E ss aa) (nexts M E kk bb).
  Proof.
    induction 1 as [|s ss kk H IH|x y ss|ss kk qq H1 IH1 H2 IH2]; intros t aa L.
    - inversion L. exists []. split; [constructor|split; [reflexivity|intros; constructor]].
    - inversion L as [|x a y cc L1 L2]. subst. destruct (IH _ _ L2) as (bb & A & B & C). exists (a :: bb).
      split; [now constructor|split; [cbn [total]; now rewrite B|]]. intros E. cbn [nexts]. now constructor.
    - inversion L as [|x1 a y1 cc L1 L2]. subst. inversion L2 as [|x2 b y2 dd L3 L4]. subst. exists (b :: a :: dd).
      split; [constructor; [exact L3|constructor; [exact L1|exact L4]]|split].
      + change (plus (load_of M x b) (plus (load_of M y a) (total M ss dd)) = plus (load_of M y a) (plus (load_of M x b)
        (total M ss dd))).
        generalize (load_of M x b) (load_of M y a) (total M ss dd). intros x3 x4 x5.
        rewrite <- (plus_assoc x3 x4 x5), (plus_comm x3 x4). apply plus_assoc.
      + intros E. cbn [nexts]. constructor.
    - destruct (IH1 _ _ L) as (bb & A & B & C). destruct (IH2 _ _ A) as (dd & A2 & B2 & C2). exists dd.
      split; [exact A2|split; [now rewrite B2|]].
      intros E. etransitivity; [apply C|apply C2].
  Qed.
  Lemma run_perm now ss bs zz d : run I now ss bs zz d -> forall kk, Permutation ss kk -> exists bs' zz',
    run I now kk bs' zz' d /\ Permutation zz zz' /\ length bs' = length bs /\ meter I o now kk bs' = meter I o now ss bs.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros kk P.
    - exists [], kk. repeat split; [constructor|exact P].
    - destruct (batch_perm _ _ P _ _ L) as (bb & A & B & C). unfold M in *. destruct (IH _ (C (t + D))) as (bs' & zz' & R' & PZ & LN & ME).
      exists (Batch t bb :: bs'), zz'. cbn [meter length]. rewrite B. fold D. split; [|split; [exact PZ|split; [congruence|]]].
      + unfold D in *. rewrite <- B in *. now apply go.
      + rewrite ME. unfold fee. now rewrite (rate_perm _ _ P).
  Qed.
  Lemma run_earlier now ss bs zz d : run I now ss bs zz d -> good ss -> 0 <= now ->
    run I 0 ss bs zz d /\ meter I o 0 ss bs <= rate o ss * now + meter I o now ss bs.
  Proof.
    intros R G N. pose proof (rate_nonneg o ss G). destruct R as [now ss|now ss t aa bs zz d T L J D R]; cbn [meter].
    - split; [constructor|nia].
    - unfold R1 in T. split; [apply go; try assumption; unfold R1; lia|nia].
  Qed.
  Lemma done_early c z pp ss : Forall2 (as_early false c z) pp ss -> (Forall R11 ss -> Forall R11 pp) /\ (good ss -> good pp).
  Proof.
    induction 1 as [|p s pp ss (<- & _ & (B & _) & (C & _) & _) _ [IH1 IH2]]; [now split|]. cbn [first over] in *. split; intros H; inversion H as [|x y X Y]; subst; constructor; auto.
    - unfold R11 in *. cbn [over] in *. destruct (over p), (over s); easy.
    - destruct X as [X1 X2]. unfold fine, inv in *. cbn [wt over first] in *. split; [exact X1|]. intros Q. destruct (over p), (over s), (first p), (first s); try easy. apply X2. easy.
    - now apply IH2.
  Qed.
  Lemma alike_early T kk ss : list_eqb alike kk (map (norm (timed o) T) ss) = true ->
    forall k, lag kk (map (norm (timed o) T) ss) <= k -> Forall2 (as_early false (T - k) k) kk ss.
  Proof.
    revert kk. induction ss as [|s ss IH]; intros [|p kk] E k H; cbn [map list_eqb] in E; try discriminate; constructor; apply andb_true_iff in E;
      destruct E as [E1 E2]; cbn [lag map combine fold_right fst snd] in H; unfold lag in *; [|apply IH; [exact E2|lia]].
    apply state_eqb_eq in E1. assert (ready p <= Z.max (ready s - (T - k)) k) as RD by (cbn [norm ready] in H; destruct (timed o); lia).
    clear - E1 RD. revert E1 RD. generalize (ready p). intros r -> RD. unfold as_early, no_later. cbn. rewrite !mark_some.
    split; [now destruct s|]. split; [exact RD|]. repeat split; discriminate.
  Qed.
  Definition runs_from n := forall kk b bs zz d, length bs = n -> run I 0 kk bs zz d -> Forall R11 zz -> good kk -> kept_ok kk b = true ->
    target <= b + meter I o 0 kk bs.
  Lemma bounded_run n T ss bs zz d b : runs_from n -> length bs = n -> run I T ss bs zz d -> Forall R11 zz -> good ss ->
    bounded (sort leb (map (norm (timed o) T) ss)) b = true -> target <= b + meter I o T ss bs.
  Proof.
    intros RF N R F G B. unfold bounded in B. apply orb_true_iff in B. destruct B as [B|B].
    { apply Z.leb_le in B. pose proof (meter_nonneg I o _ _ _ _ _ R G). lia. }
    cbv zeta in B. set (kk := steer _ _) in *. destruct (pick hash km 0 kk) as [b'|] eqn:E; [|discriminate]. apply andb_true_iff in B. destruct B as [A B].
    destruct (Permutation_map_inv _ _ (sort_perm leb (map (norm (timed o) T) ss))) as (s3 & E3 & P3). rewrite E3 in A, B.
    set (k := lag kk _) in *. assert (0 <= k) as K0. { unfold k, lag. clear. induction (combine kk _); cbn [fold_right]; lia. }
    destruct (run_perm _ _ _ _ _ R _ P3) as (bs3 & zz3 & R3 & PZ & LN & ME). pose proof (alike_early T kk s3 A k (Z.le_refl _)) as AE.
    pose proof (Permutation_Forall P3 G) as G3. destruct (early_run I o false _ _ _ _ _ R3 G3 (T - k) k kk ltac:(lia) AE) as (bs4 & zz4 & R4 & _ & LN4 & (z' & FZ) & ME4).
    pose proof (proj2 (done_early _ _ _ _ AE) G3) as G4. destruct (run_earlier _ _ _ _ _ R4 G4 K0) as [R5 ME5].
    apply kept_in in E. rewrite forallb_forall in kept_all. specialize (kept_all _ E).
    pose proof (RF _ _ bs4 _ _ ltac:(rewrite LN4, LN; exact N) R5 (proj1 (done_early _ _ _ _ FZ) (Permutation_Forall PZ F)) G4 kept_all) as X.
    replace (T - (T - k) - k) with 0 in ME4 by lia. rewrite Z.mul_0_r in ME4. apply Z.leb_le in B. cbn [mark_of] in X. lia.
  Qed.
  Lemma kept_run n : runs_from n.
  Proof.
    induction n as [n IHn] using lt_wf_ind. intros kk b bs zz d N R F G K. unfold kept_ok in K. apply orb_true_iff in K. destruct K as [K|K].
    { apply Z.leb_le in K. pose proof (meter_nonneg I o _ _ _ _ _ R G). lia. }
    assert (Forall2 (as_early false 0 0) kk kk) as AE.
    { clear. induction kk as [|s kk IH]; constructor; [|exact IH]. destruct s. unfold as_early. cbn. repeat split; try discriminate. lia. }
    destruct (early_run I o false _ _ _ _ _ R G 0 0 kk ltac:(lia) AE) as (bs' & zz' & R' & PS & LN & (z' & FZ) & ME). apply done_early in FZ. destruct FZ as [FZ _].
    specialize (FZ F). replace (rate o kk * (0 - 0 - 0)) with 0 in ME by lia. assert (target <= b + meter I o 0 kk bs'); [|lia].
    clear ME R F AE. apply andb_true_iff in K. destruct K as [K0 K]. rewrite forallb_forall in K. inversion R' as [|? ? t aa bs2 ? d2 T L J D R2]; subst.
    - exfalso. apply negb_true_iff in K0. rewrite <- not_true_iff_false in K0. apply K0. apply forallb_forall. intros s S. rewrite Forall_forall in FZ. apply some_iff. now apply FZ.
    - clear R'. cbn [prompt_starts] in PS. destruct PS as [PS _]. unfold R1 in T. assert (1 <= D) as D1 by apply lasts_1.
      pose proof (good_next I kk aa (t + D) G) as G2. pose proof (meter_nonneg I o _ _ _ _ _ R2 G2) as N2. pose proof (rate_nonneg o kk G) as RN.
      assert (0 <= fee o kk D) as FN by (unfold fee; destruct o; nia). cbn [meter]. fold D. unfold M in *.
      assert (In t (0 :: waits kk) /\ ((t =? 0) || existsb (fun x => active (snd x) && (ready (fst x) =? t)) (combine kk aa)) = true) as [W S].
      { destruct PS as [->|[P (s & a & X & Y & Z)]]; [split; [now left|reflexivity]|]. split.
        - right. apply nodup_In, filter_In. split; [|now apply Z.ltb_lt]. apply in_map_iff. exists s. split; [exact Z|]. now apply in_combine_l in X.
        - apply orb_true_iff. right. apply existsb_exists. exists (s, a). split; [exact X|]. cbn [fst snd]. now rewrite Y, Z, Z.eqb_refl. }
      specialize (K t W). cbv zeta in K. apply orb_true_iff in K. destruct K as [K|K]; [apply Z.leb_le in K; lia|].
      pose proof (every_sound M _ _ _ block_ok (locals_norm (timed o) _ _ _ _ L) none [] (most_refl none) K) as X. unfold M in *.
      rewrite plus_none, total_norm, app_nil_r in X. specialize (X (joint_fits I _ J)). unfold batch_ok in X. apply joint_iff in J. unfold M in *. rewrite J in X.
      cbv zeta in X. rewrite rev_involutive, S in X. cbn [negb orb] in X. fold D in X. rewrite <- nexts_norm in X by lia.
      pose proof (bounded_run (length bs2) _ _ _ _ _ _ (IHn (length bs2) ltac:(cbn [length] in LN; lia)) eq_refl R2 FZ G2 X) as Y.
      assert (fee o (map (norm (timed o) t) kk) D = fee o kk D) as FE by (unfold fee; now rewrite rate_norm). rewrite FE in Y. lia.
  Qed.
End Closed.

(* Closed sets of states: each with its cost so far; whatever may happen next leads to another one at no higher cost, or
   to a state that is worth enough for the target. Then no run from the first state costs less than the target.

   A potential says what a joint state is worth: a sum over its requests, less a number (`worth`). Several may be used;
   the largest counts. The batches of a state are tried request by request; once the acts chosen and the best of those to
   come show by one potential that the target is reached, the rest is skipped (`every`). *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check Prices Slots.
Import ListNotations.
Open Scope Z_scope.

Fixpoint every M (f : load -> list act -> bool) (os : list (list ((act * load) * list Z))) l aa slack {struct os} :=
  match os with
  | [] => f l aa
  | o :: os => forallb (fun x =>
      let l := plus l (snd (fst x)) in
      if fitsb M l then
        let slack := minus slack (snd x) in
        if existsb (fun y => y <=? 0) slack then true else every M f os l (fst (fst x) :: aa) slack
      else true) o
  end.

Section Closed.
  Variable I : instance.
  Variable o : objective.
  Variable scale target : Z.
  Variable leb : state -> state -> bool.  (* any functions: they steer what is found, not what is proved *)
  Variable hash : Z -> list state -> positive.
  Variable kept : list entry.
  Variable km : PositiveMap.t (list entry).
  Variable pot : Type.
  Variable ps : list pot.
  Variable q : pot -> Z -> state -> Z.
  Variable lft : pot -> Z -> Z.
  Let M := mach I.
  Definition clocked := match ps with [] => false | _ => true end.
  Definition clk now := if clocked then now else 0.
  Definition tickD k D := if clocked then k + D else k.
  Definition worth_of p k ss := sum (q p k) ss - lft p k.
  Definition bounded k ss b :=
    match pick hash km k ss with Some b' => b' <=? b | None => false end || (target <=? b)
    || existsb (fun p => target <=? b + worth_of p k ss) ps.
  (* What a potential says after an act in a batch of one tick, and at the least after any. *)
  Definition after p k s a := q p (k + 1) (norm true 1 (next M 1 s a)).
  Definition least p k s := fold_right (fun al x => Z.min (after p k s (fst al)) x) far (opts M s).
  Definition choices k s :=
    let tried := map (fun al => (al, map (fun p => after p k s (fst al)) ps)) (opts M s) in
    let least := fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps) tried in
    (least, map (fun x => (fst x, minus (snd x) least)) tried).
  Definition slack k ss b chosen :=
    fold_right (fun c x => minus x (fst c)) (map (fun p => target + lft p (k + 1) - b - scale * fee o ss 1) ps)
      (chosen : list (list Z * list ((act * load) * list Z))).
  Definition batch_ok k ss b l aa :=
    negb (jointb M l) || let D := lasts (cost I) l in
    bounded (tickD k D) (sort leb (map (norm (timed o) D) (nexts M D ss (rev aa)))) (b + scale * fee o ss D).
  Definition kept_ok e :=
    let k := clock e in let ss := states e in let b := mark_of e in
    (negb (forallb (fun s => some (over s)) ss) || (target <=? b))
    && (negb (timed o) || bounded (tickD k 1) (sort leb (map (norm true 1) ss)) (b + scale * rate o ss))
    && let chosen := map (choices k) ss in every M (batch_ok k ss b) (map snd chosen) none [] (slack k ss b chosen).
  Definition origin := sort leb (map (norm (timed o) 0) (initial I)).

  Hypothesis block_ok : 0 < block M.
  Hypothesis scale_ok : 0 <= scale.
  Hypothesis kept_in : forall k ss b, pick hash km k ss = Some b -> In (Entry k ss b) kept.
  Hypothesis kept_all : forallb kept_ok kept = true.
  Hypothesis ps_steady : ps = [] \/ steady I o = true.
  Hypothesis sound : forall p, In p ps -> forall now ss bs zz d, run I now ss bs zz d -> 0 <= now -> Forall R11 zz ->
    good ss -> room I ss -> worth_of p now (map (norm true now) ss) <= scale * meter I o now ss bs.

  Lemma clk_add t D : tickD (clk t) D = clk (t + D). Proof. unfold tickD, clk. now destruct clocked. Qed.
  Lemma clk_on p now : In p ps -> clk now = now.
  Proof. unfold clk, clocked. destruct ps; [intros []|reflexivity]. Qed.

  (* --- Skipped batches reach the target ----------------------------------------------------------------------- *)
  Fixpoint excess p k ss aa := match ss, aa with
    | s :: ss, a :: aa => after p k s a - least p k s + excess p k ss aa | _, _ => 0 end.
  Lemma least_le p k s a : local M 0 s a -> fitsb M (load_of M s a) = true -> least p k s <= after p k s a.
  Proof.
    intros L F. pose proof (in_opts M (local_iff M) s a L F) as H. unfold least. induction (opts M s) as [|x l IH]; [destruct H|].
    cbn [fold_right]. destruct H as [->|H]; [cbn [fst]; lia|]. specialize (IH H). lia.
  Qed.
  Lemma choices_are k s : choices k s = (map (fun p => least p k s) ps,
    map (fun al => (al, map (fun p => after p k s (fst al) - least p k s) ps)) (opts M s)).
  Proof.
    assert (forall os, fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps)
      (map (fun al : act * load => (al, map (fun p => after p k s (fst al)) ps)) os)
      = map (fun p => fold_right (fun al x => Z.min (after p k s (fst al)) x) far os) ps) as E.
    { induction os as [|al os IH]; cbn [map fold_right snd]; [reflexivity|]. rewrite IH. apply minimum_map. }
    unfold choices. cbv zeta. rewrite E. f_equal. rewrite map_map. apply map_ext. intros al. cbn [fst snd].
    now rewrite minus_map.
  Qed.
  Lemma excess_nonneg p k ss aa : Forall2 (local M 0) ss aa -> fitsb M (total M ss aa) = true -> 0 <= excess p k ss aa.
  Proof.
    induction 1 as [|s a ss aa L LL IH]; cbn [excess total]; [lia|]. intros F.
    pose proof (load_nonneg _ _ _ _ block_ok L). pose proof (total_nonneg _ _ _ _ block_ok LL).
    assert (fitsb M (load_of M s a) = true) as F1 by (eapply fits_most; [|exact F]; now apply most_none_r).
    assert (fitsb M (total M ss aa) = true) as F2 by (eapply fits_most; [|exact F]; now apply most_none_l).
    pose proof (least_le p k s a L F1). specialize (IH F2). lia.
  Qed.
  Lemma every_sound k f ss aa : Forall2 (local M 0) ss aa -> forall l bb (room : pot -> Z), most none l ->
    every M f (map snd (map (choices k) ss)) l bb (map room ps) = true -> fitsb M (plus l (total M ss aa)) = true ->
    f (plus l (total M ss aa)) (rev aa ++ bb) = true \/ exists p, In p ps /\ room p <= excess p k ss aa.
  Proof.
    induction 1 as [|s a ss aa L LL IH]; intros l bb room N E F.
    - left. cbn [map every total rev app] in *. rewrite plus_comm, plus_none in *. exact E.
    - cbn [total map every excess] in *. pose proof (load_nonneg _ _ _ _ block_ok L) as N1.
      pose proof (total_nonneg _ _ _ _ block_ok LL) as N2.
      assert (fitsb M (plus l (load_of M s a)) = true) as F1.
      { eapply fits_most; [|exact F]. rewrite <- plus_assoc. now apply most_none_r. }
      assert (fitsb M (load_of M s a) = true) as F2 by (eapply fits_most; [|exact F1]; now apply most_none_l).
      assert (fitsb M (total M ss aa) = true) as F3.
      { eapply fits_most; [|exact F]. rewrite <- plus_assoc. apply most_none_l. rewrite <- (plus_none none).
        now apply most_plus. }
      rewrite forallb_forall in E. rewrite choices_are in E. cbn [snd] in E.
      specialize (E _ (in_map _ _ _ (in_opts M (local_iff M) _ _ L F2))). cbn [fst snd] in E. rewrite F1 in E.
      rewrite minus_map in E. cbv zeta in E. destruct (existsb _ _) eqn:X in E.
      + right. apply existsb_exists in X. destruct X as (y & Y & X). apply in_map_iff in Y. destruct Y as (p & <- & Y).
        exists p. split; [exact Y|]. apply Z.leb_le in X. pose proof (excess_nonneg p k ss aa LL F3). lia.
      + rewrite <- plus_assoc in F. cbn [rev]. rewrite <- plus_assoc, <- app_assoc.
        assert (most none (plus l (load_of M s a))) as N3 by (rewrite <- (plus_none none); now apply most_plus).
        destruct (IH (plus l (load_of M s a)) (a :: bb) (fun p => room p - (after p k s a - least p k s)) N3 E F)
          as [G|(p & G & H)]; [left; exact G|].
        right. exists p. split; [exact G|]. lia.
  Qed.
  Lemma slack_is k ss b chosen : chosen = map (choices k) ss ->
    slack k ss b chosen = map (fun p => target + lft p (k + 1) - b - scale * fee o ss 1 - sum (least p k) ss) ps.
  Proof.
    intros ->. unfold slack. generalize (fee o ss 1). intros x. induction ss as [|s ss IH]; cbn [map fold_right sum].
    - apply map_ext. intros p. lia.
    - rewrite IH, choices_are. cbn [fst]. rewrite minus_map. apply map_ext. intros p. unfold sum. lia.
  Qed.
  Lemma excess_is p k ss aa : Forall2 (local M 0) ss aa ->
    excess p k ss aa = sum (q p (k + 1)) (map (norm true 1) (nexts M 1 ss aa)) - sum (least p k) ss.
  Proof.
    induction 1 as [|s a ss aa L LL IH]; cbn [excess nexts map sum fold_right]; [reflexivity|]. rewrite IH.
    unfold sum, after. lia.
  Qed.

  (* --- Along a run ------------------------------------------------------------------------------------------------ *)
  Lemma rate_perm ss kk : Permutation ss kk -> rate o ss = rate o kk.
  Proof.
    intros H. unfold rate. destruct o; try reflexivity; try now apply sum_perm. f_equal.
    induction H; cbn; [reflexivity|now rewrite IHPermutation| |congruence].
      now rewrite !orb_assoc, (orb_comm (negb (some (over y)))).
  Qed.
  Lemma batch_perm ss kk : Permutation ss kk -> forall aa, Forall2 (local M 0) ss aa
    -> exists bb, Forall2 (local M 0) kk bb /\
    total M kk bb = total M ss aa /\ forall E, Permutation (nexts M E ss aa) (nexts M E kk bb).
  Proof.
    induction 1 as [|s ss kk H IH|x y ss|ss kk qq H1 IH1 H2 IH2]; intros aa L.
    - inversion L. exists []. split; [constructor|split; [reflexivity|intros; constructor]].
    - inversion L as [|x a y cc L1 L2]. subst. destruct (IH _ L2) as (bb & A & B & C). exists (a :: bb).
      split; [now constructor|split; [cbn [total]; now rewrite B|]]. intros E. cbn [nexts]. now constructor.
    - inversion L as [|x1 a y1 cc L1 L2]. subst. inversion L2 as [|x2 b y2 dd L3 L4]. subst. exists (b :: a :: dd).
      split; [constructor; [exact L3|constructor; [exact L1|exact L4]]|split].
      + change (plus (load_of M x b) (plus (load_of M y a) (total M ss dd)) = plus (load_of M y a) (plus (load_of M x b)
        (total M ss dd))).
        generalize (load_of M x b) (load_of M y a) (total M ss dd). intros x3 x4 x5.
        rewrite <- (plus_assoc x3 x4 x5), (plus_comm x3 x4). apply plus_assoc.
      + intros E. cbn [nexts]. constructor.
    - destruct (IH1 _ L) as (bb & A & B & C). destruct (IH2 _ A) as (dd & A2 & B2 & C2). exists dd.
      split; [exact A2|split; [now rewrite B2|]].
      intros E. etransitivity; [apply C|apply C2].
  Qed.
  Definition Bounded now ss b := exists kk, Permutation (map (norm (timed o) now) ss) kk /\
    (exists b', b' <= b /\ kept_ok (Entry (clk now) kk b') = true).
  Definition Enough now ss b := target <= b \/ exists p, In p ps /\ target <= b + worth_of p now (map (norm true now) ss).
  Lemma worth_perm p k ss kk : Permutation ss kk -> worth_of p k ss = worth_of p k kk.
  Proof. intros H. unfold worth_of. now rewrite (sum_perm (q p k) _ _ H). Qed.
  Lemma ps_timed p : In p ps -> timed o = true.
  Proof. intros H. destruct ps_steady as [E|E]; [now rewrite E in H|]. now apply andb_true_iff in E. Qed.
  Lemma bounded_cases now ss kk b : Permutation (map (norm (timed o) now) ss) kk -> bounded (clk now) kk b = true ->
    Bounded now ss b \/ Enough now ss b.
  Proof.
    intros H. unfold bounded. rewrite !orb_true_iff. intros [[B|B]|B].
    - left. destruct (pick hash km (clk now) kk) as [b'|] eqn:E; [|discriminate]. exists kk. split; [exact H|]. exists b'.
      split; [now apply Z.leb_le|]. apply kept_in in E. rewrite forallb_forall in kept_all. now apply kept_all.
    - right. left. now apply Z.leb_le.
    - right. right. apply existsb_exists in B. destruct B as (p & A & B). exists p. split; [exact A|].
      apply Z.leb_le in B. rewrite (clk_on p now A) in B. rewrite (ps_timed p A) in H. now rewrite (worth_perm p now _ _ H).
  Qed.
  Lemma enough now ss bs zz d b : run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss -> room I ss ->
    Enough now ss b -> target <= b + scale * meter I o now ss bs.
  Proof.
    intros R N F G RM [H|(p & A & H)].
    - pose proof (meter_nonneg I o _ _ _ _ _ R G). nia.
    - pose proof (sound p A _ _ _ _ _ R N F G RM). lia.
  Qed.
  Lemma start_batch t ss aa kk b D : kept_ok (Entry (clk t) kk b) = true -> Permutation (map (norm (timed o) t) ss) kk ->
    Forall2 (local M t) ss aa -> joint M (total M ss aa) -> D = lasts (cost I) (total M ss aa) ->
    let b := b + scale * fee o ss D in
    Bounded (t + D) (nexts M (t + D) ss aa) b \/ Enough (t + D) (nexts M (t + D) ss aa) b.
  Proof.
    intros K H L J ->. unfold kept_ok in K. cbn [clock states mark_of] in K. rewrite !andb_true_iff in K.
    destruct K as [_ K]. set (D := lasts (cost I) (total M ss aa)) in *.
    assert (1 <= D) as D1 by apply lasts_1.
    destruct (batch_perm _ _ H _ (locals_norm (timed o) _ _ _ _ L)) as (bb & A & B & C). rewrite total_norm in B.
    assert (fee o ss D = fee o kk D) as FE by (unfold fee; rewrite <- (rate_perm _ _ H), rate_norm; reflexivity).
    rewrite (slack_is _ _ _ _ eq_refl) in K.
    destruct (every_sound _ _ _ _ A none [] _ (most_refl none) K) as [X|(p & P & X)].
    - now rewrite plus_none, B; apply joint_fits.
    - rewrite plus_none, app_nil_r, B in X. unfold batch_ok in X. apply joint_iff in J. rewrite J in X.
      cbn [negb orb] in X. cbv zeta in X. rewrite rev_involutive in X. fold D in X. rewrite clk_add, <- FE in X.
      refine (bounded_cases _ _ _ _ _ X). rewrite nexts_norm by lia. rewrite sort_perm. apply Permutation_map. apply C.
    - right. right. exists p. split; [exact P|]. pose proof (ps_timed p P) as TM. rewrite (clk_on p t P) in *.
      assert (D = 1) as E1.
      { apply unit_1. destruct ps_steady as [E|E]; [now rewrite E in P|]. now apply andb_true_iff in E. }
      rewrite E1 in *. rewrite (excess_is _ _ _ _ A) in X. rewrite <- FE in X. rewrite TM in *.
      rewrite nexts_norm by lia. rewrite (worth_perm p _ _ _ (Permutation_map _ (C 1))). unfold worth_of. lia.
  Qed.
  Lemma closed_run now ss bs zz d : run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss -> room I ss ->
    forall b, Bounded now ss b \/ Enough now ss b -> target <= b + scale * meter I o now ss bs.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros N F G RM b [B|B].
    - destruct B as (kk & H & b' & LE & K). unfold kept_ok in K. cbn [clock states mark_of] in K.
      rewrite !andb_true_iff, orb_true_iff in K. destruct K as [[[K|K] _] _].
      + exfalso. apply negb_true_iff in K. rewrite <- not_true_iff_false in K. apply K. apply forallb_forall.
        intros x X. apply (Permutation_in _ (Permutation_sym H)) in X. apply in_map_iff in X.
        destruct X as (s & <- & X). rewrite Forall_forall in F. cbn. rewrite mark_some. apply some_iff. now apply F.
      + apply Z.leb_le in K. cbn [meter]. lia.
    - eapply enough; eauto. constructor.
    - unfold R1 in T.
      assert (forall n now b, Z.of_nat n = t - now -> timed o = true \/ n = 0%nat -> 0 <= now ->
        Bounded now ss b -> target <= b + scale * meter I o now ss (Batch t aa :: bs)) as Main.
      { clear b B now T N. induction n as [|n IHn]; intros now b E TM N (kk & H & b' & LE & K).
        - assert (now = t) as -> by lia. pose proof (start_batch _ _ _ _ _ D K H L J eq_refl) as X. cbv zeta in X.
          assert (0 <= t + D) as ND by (pose proof (lasts_1 (cost I) (total (mach I) ss aa)); unfold D; lia).
          specialize (IH ND F (good_next I _ _ _ G) (room_next I block_ok _ _ _ _ L (joint_fits I _ J)) _ X).
          cbn [meter]. fold D. rewrite Z.sub_diag, Z.mul_0_r. lia.
        - destruct TM as [TM|TM]; [|discriminate]. unfold kept_ok in K. cbn [clock states mark_of] in K.
          rewrite !andb_true_iff in K. destruct K as [[_ K] _]. rewrite TM in K. cbn [negb orb] in K. rewrite clk_add in K.
          assert (Permutation (map (norm (timed o) (now + 1)) ss) (sort leb (map (norm true 1) kk))) as H2.
          { rewrite sort_perm. rewrite TM in H |- *. rewrite map_wait. now apply Permutation_map. }
          assert (rate o kk = rate o ss) as RE by (rewrite <- (rate_perm _ _ H); apply rate_norm). rewrite RE in K.
          destruct (bounded_cases _ _ _ _ H2 K) as [X|X].
          + specialize (IHn (now + 1) _ ltac:(lia) (or_introl TM) ltac:(lia) X). cbn [meter] in *. nia.
          + assert (RR : run I (now + 1) ss (Batch t aa :: bs) zz (D + d)) by (apply go; [unfold R1; lia|exact L|exact J|exact R]).
            pose proof (enough _ _ _ _ _ _ RR ltac:(lia) F G RM X) as Y. cbn [meter] in *. nia. }
      destruct (timed o) eqn:TM.
      + eapply (Main (Z.to_nat (t - now))); eauto; lia.
      + assert (ps = []) as PE by (destruct ps_steady as [?|ST]; [assumption|]; unfold steady in ST; rewrite TM in ST; discriminate).
        assert (clk now = clk t) as CE by (unfold clk, clocked; now rewrite PE).
        assert (Bounded t ss b) as B2.
        { destruct B as (kk & H & K). exists kk. rewrite CE in K. rewrite TM in *. exact (conj H K). }
        pose proof (Main 0%nat t b ltac:(lia) (or_intror eq_refl) ltac:(lia) B2) as X. cbn [meter] in *.
        destruct o; try discriminate TM. cbn [rate] in *. lia.
    - assert (RR : run I now ss (Batch t aa :: bs) zz (D + d)) by (apply go; assumption). exact (enough _ _ _ _ _ _ RR N F G RM B).
  Qed.
End Closed.

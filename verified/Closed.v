(* Closed sets of states: each with its cost so far; whatever may happen next leads to another one at no higher cost, or
   reaches the target. Then no run from the first state costs less than the target. *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check Prices Slots.
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
  Variable kept : list entry.
  Variable km : PositiveMap.t (list entry).
  Let M := mach I.
  Definition bounded ss b := match pick hash km 0 ss with Some b' => b' <=? b | None => false end || (target <=? b).
  Definition batch_ok ss b l aa := negb (jointb M l) || let D := lasts (cost I) l in
    bounded (sort leb (map (norm (timed o) D) (nexts M D ss (rev aa)))) (b + fee o ss D).
  Definition kept_ok ss b := (negb (forallb (fun s => some (over s)) ss) || (target <=? b))
    && (negb (timed o) || bounded (sort leb (map (norm true 1) ss)) (b + rate o ss))
    && every M (batch_ok ss b) (map (opts M) ss) none [].
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
  Definition Bounded now ss b := exists kk, Permutation (map (norm (timed o) now) ss) kk /\ exists b', b' <= b /\ kept_ok kk b' = true.
  Lemma bounded_cases now ss kk b : Permutation (map (norm (timed o) now) ss) kk -> bounded kk b = true ->
    Bounded now ss b \/ target <= b.
  Proof.
    intros H. unfold bounded. rewrite orb_true_iff, Z.leb_le. intros [B|B]; [left|now right].
    destruct (pick hash km 0 kk) as [b'|] eqn:E; [|discriminate]. exists kk. split; [exact H|]. exists b'.
    split; [now apply Z.leb_le|]. apply kept_in in E. rewrite forallb_forall in kept_all. exact (kept_all _ E).
  Qed.
  Lemma start_batch t ss aa kk b D : kept_ok kk b = true -> Permutation (map (norm (timed o) t) ss) kk ->
    Forall2 (local M t) ss aa -> joint M (total M ss aa) -> D = lasts (cost I) (total M ss aa) ->
    let b := b + fee o ss D in Bounded (t + D) (nexts M (t + D) ss aa) b \/ target <= b.
  Proof.
    intros K H L J ->. unfold kept_ok in K. rewrite !andb_true_iff in K. destruct K as [_ K]. set (D := lasts (cost I) (total M ss aa)) in *.
    assert (1 <= D) as D1 by apply lasts_1.
    destruct (batch_perm _ _ H _ (locals_norm (timed o) _ _ _ _ L)) as (bb & A & B & C). rewrite total_norm in B.
    assert (fee o ss D = fee o kk D) as FE by (unfold fee; rewrite <- (rate_perm _ _ H), rate_norm; reflexivity).
    pose proof (every_sound M _ _ _ block_ok A none [] (most_refl none) K) as X. rewrite plus_none, B, app_nil_r in X.
    specialize (X (joint_fits I _ J)). unfold batch_ok in X. apply joint_iff in J. rewrite J in X.
    cbn [negb orb] in X. cbv zeta in X. rewrite rev_involutive in X. fold D in X. rewrite <- FE in X.
    refine (bounded_cases _ _ _ _ _ X). rewrite nexts_norm by lia. rewrite sort_perm. apply Permutation_map. apply C.
  Qed.
  Lemma closed_run now ss bs zz d : run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss ->
    forall b, Bounded now ss b \/ target <= b -> target <= b + meter I o now ss bs.
  Proof.
    intros R N F G b [B|B]; [|pose proof (meter_nonneg I o _ _ _ _ _ R G); lia].
    revert N F G b B. induction R as [now ss|now ss t aa bs zz d T L J D R IH]; intros N F G b (kk & H & b' & LE & K).
    - unfold kept_ok in K. rewrite !andb_true_iff, orb_true_iff in K. destruct K as [[[K|K] _] _].
      + exfalso. apply negb_true_iff in K. rewrite <- not_true_iff_false in K. apply K. apply forallb_forall.
        intros x X. apply (Permutation_in _ (Permutation_sym H)) in X. apply in_map_iff in X.
        destruct X as (s & <- & X). rewrite Forall_forall in F. cbn. rewrite mark_some. apply some_iff. now apply F.
      + apply Z.leb_le in K. cbn [meter]. lia.
    - assert (BD : Bounded now ss b) by (exists kk; split; [exact H|exists b'; now split]). clear b' LE K kk H.
      unfold R1 in T. pose proof (lasts_1 (cost I) (total (mach I) ss aa)) as D1. fold D in D1.
      pose proof (good_next I ss aa (t + D) G) as G'. pose proof (meter_nonneg I o _ _ _ _ _ R G') as N2.
      assert (forall n now b, Z.of_nat n = t - now -> timed o = true \/ n = 0%nat -> 0 <= now ->
        Bounded now ss b -> target <= b + meter I o now ss (Batch t aa :: bs)) as Main.
      { clear b BD now N T. induction n as [|n IHn]; intros now b E TM N (kk & H & b' & LE & K).
        - assert (now = t) as -> by lia. pose proof (start_batch _ _ _ _ _ D K H L J eq_refl) as X. cbv zeta in X.
          cbn [meter]. fold D. rewrite Z.sub_diag, Z.mul_0_r. destruct X as [X|X]; [|unfold M in *; lia].
          specialize (IH ltac:(lia) F G' _ X). unfold M in *. lia.
        - destruct TM as [TM|TM]; [|discriminate]. unfold kept_ok in K.
          rewrite !andb_true_iff in K. destruct K as [[_ K] _]. rewrite TM in K. cbn [negb orb] in K.
          assert (Permutation (map (norm (timed o) (now + 1)) ss) (sort leb (map (norm true 1) kk))) as H2.
          { rewrite sort_perm. rewrite TM in H |- *. rewrite map_wait. now apply Permutation_map. }
          assert (rate o kk = rate o ss) as RE by (rewrite <- (rate_perm _ _ H); apply rate_norm). rewrite RE in K.
          assert (target <= b' + rate o ss + meter I o (now + 1) ss (Batch t aa :: bs)) as X; [|cbn [meter] in *; nia].
          destruct (bounded_cases _ _ _ _ H2 K) as [X|X]; [exact (IHn (now + 1) _ ltac:(lia) (or_introl TM) ltac:(lia) X)|].
          assert (RR : run I (now + 1) ss (Batch t aa :: bs) zz (D + d)) by (apply go; [unfold R1; lia|exact L|exact J|exact R]).
          pose proof (meter_nonneg I o _ _ _ _ _ RR G). lia. }
      destruct (timed o) eqn:TM.
      + apply (Main (Z.to_nat (t - now))); [lia|now left|lia|]. exact BD.
      + assert (BT : Bounded t ss b) by (destruct BD as (kk & H & K); exists kk; rewrite TM in *; exact (conj H K)).
        pose proof (Main 0%nat t b ltac:(lia) (or_intror eq_refl) ltac:(lia)) as X. cbn [meter] in *.
        destruct o; try discriminate TM. cbn [rate] in *. rewrite Z.mul_0_l in *. exact (X BT).
  Qed.
End Closed.

(* All that a request may do, and a map from states to costs.

   The acts of a request are listed move by move, each of any size that the rules leave (`candidates`), and the legal
   ones kept (`opts`); every legal act is among them (`in_opts`). What a batch uses of a limit only grows with each act, so
   an act that alone exceeds a limit is in no batch (`fits_most`). *)
Require Import ZArith List Bool Lia FMapPositive Permutation Spec Referee Model.
Import ListNotations.
Open Scope Z_scope.

(* --- loads -------------------------------------------------------------------------------------------------- *)
Lemma load_ext x y : tok x = tok y -> ptok x = ptok y -> gen x = gen y -> ndec x = ndec y -> npre x = npre y
  -> dkv x = dkv y -> pkv x = pkv y -> pairs x = pairs y -> otok x = otok y -> itok x = itok y -> nout x = nout y
  -> nin x = nin y -> blk x = blk y -> hos x = hos y -> x = y.
Proof. destruct x, y; cbn. intros. now subst. Qed.
Lemma plus_assoc x y z : plus (plus x y) z = plus x (plus y z).
Proof. apply load_ext; cbn; symmetry; apply Z.add_assoc. Qed.
Lemma plus_comm x y : plus x y = plus y x.
Proof. apply load_ext; cbn; apply Z.add_comm. Qed.
Lemma plus_none x : plus none x = x.
Proof. now destruct x. Qed.
Definition most l l' := tok l <= tok l' /\ ptok l <= ptok l' /\ ndec l + npre l <= ndec l' + npre l'
  /\ blk l <= blk l' /\ hos l <= hos l'.
Lemma fits_most M l l' : most l l' -> fitsb M l' = true -> fitsb M l = true.
Proof.
  intros (A & B & C & D & E). unfold fitsb. rewrite !andb_true_iff.
  assert (forall x y lim, x <= y -> withinb y lim = true -> withinb x lim = true) as W
    by (intros x y [z|] H; simpl; rewrite ?Z.leb_le; [lia|easy]).
  intros [[[[F1 F2] F3] F4] F5]. repeat split; eapply W; eauto.
Qed.
Lemma most_plus x y x' y' : most x x' -> most y y' -> most (plus x y) (plus x' y').
Proof. unfold most; simpl. lia. Qed.
Lemma most_refl x : most x x. Proof. unfold most. lia. Qed.
Lemma most_none_l x y : most none x -> most y (plus x y).
Proof. intros H. rewrite <- (plus_none y) at 1. apply most_plus; [exact H|apply most_refl]. Qed.
Lemma most_none_r x y : most none y -> most x (plus x y).
Proof. intros H. rewrite plus_comm. now apply most_none_l. Qed.

Lemma ceil_mono x y q : 0 < q -> x <= y -> ceil_div x q <= ceil_div y q.
Proof. intros Q H. unfold ceil_div. apply Z.opp_le_mono. rewrite !Z.opp_involutive. apply Z.div_le_mono; lia. Qed.
Lemma ceil_0 q : ceil_div 0 q = 0. Proof. reflexivity. Qed.
Lemma m2_nonneg s a : R10 s a -> 0 <= m2 s a.
Proof. unfold R10, m2. lia. Qed.
Lemma load_nonneg M t s a : 0 < block M -> local M t s a -> most none (load_of M s a).
Proof.
  intros Q (_ & C & _ & _ & _ & _ & G). pose proof (m2_nonneg _ _ G) as N.
  assert (0 <= work a) as W by (unfold R3 in C; lia).
  assert (0 <= h2 s a) as H by (unfold R10 in G; unfold h2; lia).
  pose proof (ceil_mono 0 (m2 s a + work a) (block M) Q) as L. rewrite ceil_0 in L.
  unfold most; simpl. repeat split; try lia; [|destruct (decodes s a), (prefills s a); simpl; lia].
    destruct (prefills s a); simpl; lia.
Qed.
Lemma total_nonneg M t ss aa : 0 < block M -> Forall2 (local M t) ss aa -> most none (total M ss aa).
Proof.
  intros Q. induction 1 as [|s a ss aa L _ IH]; simpl; [apply most_refl|]. rewrite <- (plus_none none).
    apply most_plus; [|exact IH].
  eapply load_nonneg; eauto.
Qed.

(* --- all that a request may do -------------------------------------------------------------- *)
Definition upto n := map Z.of_nat (seq 1 (Z.to_nat n)).
Definition cand (all : bool) x := 0 :: (if x <=? 0 then [] else if all then upto x else [x]).
Lemma in_cand all x k : k = 0 \/ 1 <= k <= x /\ (all = false -> k = x) -> In k (cand all x).
Proof.
  intros [->|[H E]]; [now left|right]. destruct (Z.leb_spec x 0); [lia|]. destruct all.
  - apply in_map_iff. exists (Z.to_nat k). split; [lia|]. apply in_seq. lia.
  - left. symmetry. now apply E.
Qed.
Definition candidates M s :=
  flat_map (fun d => flat_map (fun o => flat_map (fun i => map (fun w => Act w d o i) (cand (chunked M) (known s - m2 s
    (Act 0 d o i))))
    (cand (partial M) (h1 s (Act 0 d 0 0) + o))) (cand (partial M) (m1 s (Act 0 d 0 0)))) (cand (partial M) (device s +
      host s)).
Lemma in_candidates M t s a : local M t s a -> In a (candidates M s).
Proof.
  intros (_ & W & _ & _ & (_ & _ & E) & _ & G). destruct a as [w d o i]. unfold R10, R3 in *.
  change (m1 s (Act w d o i)) with (m1 s (Act 0 d 0 0)) in *.
    change (h1 s (Act w d o i)) with (h1 s (Act 0 d 0 0)) in *.
  change (m2 s (Act w d o i)) with (m2 s (Act 0 d o i)) in *. cbn [work drop out back] in *.
  unfold candidates. apply in_flat_map. exists d. split.
  { apply in_cand. destruct (Z.eq_dec d 0); [now left|right]. split; [lia|]. intros P. apply E; assumption. }
  apply in_flat_map. exists o. split.
  { apply in_cand. destruct (Z.eq_dec o 0); [now left|right]. split; [lia|]. intros P. apply E; assumption. }
  apply in_flat_map. exists i. split.
  { apply in_cand. destruct (Z.eq_dec i 0); [now left|right]. split; [lia|]. intros P. apply E; assumption. }
  apply in_map_iff. exists w. split; [reflexivity|]. apply in_cand. destruct (Z.eq_dec w 0) as [|N]; [now left|right].
    split; [lia|]. now apply W.
Qed.
Definition opts M s := map (fun a => (a, load_of M s a)) (filter (fun a => localb M 0 s a
  && fitsb M (load_of M s a)) (candidates M s)).
Section Every.
  Variable M : machine.
  Hypothesis Q : 0 < block M.
  Hypothesis decide : forall t s a, localb M t s a = true <-> local M t s a.
  Lemma in_opts s a : local M 0 s a -> fitsb M (load_of M s a) = true -> In (a, load_of M s a) (opts M s).
  Proof.
    intros L F. apply in_map_iff. exists a. split; [reflexivity|]. apply filter_In.
      split; [eapply in_candidates; eauto|].
    rewrite F, andb_true_r. now apply decide.
  Qed.
End Every.

(* --- equality of states, and a map from states to numbers ----------------------------------------------------- *)
Definition handling_eqb x y := match x, y with Preserve, Preserve | Discard, Discard | Swap, Swap | Free, Free => true |
  _, _ => false end.
Definition opt_eqb {A} (eqb : A -> A -> bool) x y := match x, y with None, None => true | Some a, Some b => eqb a b | _,
  _ => false end.
Fixpoint list_eqb {A} (eqb : A -> A -> bool) x y := match x, y with [], [] => true | a :: x, b :: y => eqb a b
  && list_eqb eqb x y | _, _ => false end.
Definition seg_eqb (x y : call * Z) := (duration (fst x) =? duration (fst y)) && (returns (fst x) =? returns (fst y))
  && handling_eqb (handled (fst x)) (handled (fst y)) && (snd x =? snd y).
Definition state_eqb x y := (device x =? device y) && (known x =? known y) && (host x =? host y) && (todo x =? todo y)
  && (ready x =? ready y)
  && list_eqb seg_eqb (rest x) (rest y) && opt_eqb handling_eqb (window x) (window y) && Bool.eqb (due x) (due y)
    && Bool.eqb (going x) (going y)
  && opt_eqb Z.eqb (first x) (first y) && opt_eqb Z.eqb (over x) (over y) && (arrived x =? arrived y) && (wt x =? wt y).
Lemma opt_eqb_eq {A} (eqb : A -> A -> bool) : (forall a b, eqb a b = true -> a = b)
  -> forall x y, opt_eqb eqb x y = true -> x = y.
Proof. intros H [a|] [b|]; simpl; try easy. intros E. f_equal. now apply H. Qed.
Lemma list_eqb_eq {A} (eqb : A -> A -> bool) : (forall a b, eqb a b = true -> a = b)
  -> forall x y, list_eqb eqb x y = true -> x = y.
Proof. intros H x. induction x as [|a x IH]; intros [|b y]; simpl; try easy. rewrite andb_true_iff. intros [E F].
  f_equal; [now apply H|now apply IH]. Qed.
Lemma handling_eqb_eq x y : handling_eqb x y = true -> x = y. Proof. now destruct x, y. Qed.
Lemma seg_eqb_eq x y : seg_eqb x y = true -> x = y.
Proof.
  destruct x as [[d r h] z], y as [[d' r' h'] z']. unfold seg_eqb. simpl. rewrite !andb_true_iff, !Z.eqb_eq.
  intros [[[-> ->] H] ->]. now apply handling_eqb_eq in H as ->.
Qed.
Lemma state_eqb_eq x y : state_eqb x y = true -> x = y.
Proof.
  destruct x, y. unfold state_eqb. cbn.
  rewrite !andb_true_iff, !Z.eqb_eq, !Bool.eqb_true_iff. intros H. decompose [and] H. clear H.
  repeat match goal with H : opt_eqb Z.eqb _ _ = true |- _ => apply opt_eqb_eq in H; [|intros; now apply Z.eqb_eq] end.
  match goal with H : opt_eqb handling_eqb _ _ = true |- _ => apply opt_eqb_eq in H; [|apply handling_eqb_eq] end.
  match goal with H : list_eqb _ _ _ = true |- _ => apply list_eqb_eq in H; [|apply seg_eqb_eq] end.
  now subst.
Qed.

Record entry := Entry { clock : Z; states : list state; mark_of : Z }.
Section Map.
  Variable hash : Z -> list state -> positive.  (* any function *)
  Definition same k ss e := (clock e =? k) && list_eqb state_eqb (states e) ss.
  Definition pick m k ss := match PositiveMap.find (hash k ss) m with
    | None => None | Some l => option_map mark_of (find (same k ss) l) end.
  Definition put m e := let h := hash (clock e) (states e) in
    PositiveMap.add h (e :: match PositiveMap.find h m with Some l => l | None => [] end) m.
  Definition build es := fold_left put es (PositiveMap.empty (list entry)).
  Lemma build_in es h l e : PositiveMap.find h (build es) = Some l -> In e l -> In e es.
  Proof.
    unfold build. intros H K. assert (forall m, (forall h l e, PositiveMap.find h m = Some l -> In e l -> In e es) ->
      forall fs, incl fs es -> forall h l e, PositiveMap.find h (fold_left put fs m) = Some l -> In e l
        -> In e es) as G.
    { intros m X fs. revert m X. induction fs as [|f fs IH]; intros m X N; simpl; [exact X|].
      apply IH; [|intros z Z; apply N; now right]. intros h' l' e'. unfold put. set (g := hash _ _).
      destruct (Pos.eq_dec h' g) as [->|D].
      - rewrite PositiveMap.gss. intros [= <-] [<-|Y]; [apply N; now left|].
        destruct (PositiveMap.find g m) eqn:Z; [|destruct Y]. eapply X; eauto.
      - rewrite PositiveMap.gso by exact D. apply X. }
    eapply G; eauto; [|apply incl_refl]. intros h' l' e'. rewrite PositiveMap.gempty. easy.
  Qed.
  Lemma pick_in es k ss b : pick (build es) k ss = Some b -> In (Entry k ss b) es.
  Proof.
    unfold pick. destruct (PositiveMap.find _ _) as [l|] eqn:E; [|easy]. destruct (find _ l) as [e|] eqn:F; [|easy].
      intros [= <-].
    apply find_some in F. destruct F as [A B]. unfold same in B. rewrite andb_true_iff, Z.eqb_eq in B.
      destruct B as [B C].
    apply list_eqb_eq in C; [|apply state_eqb_eq]. destruct e; simpl in *. subst. eapply build_in; eauto.
  Qed.
End Map.

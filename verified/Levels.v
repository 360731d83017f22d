(* Weights: requests with more weight for their work go first.

   Of all requests above each level the mean times are late (`early_le`); weighed by the differences of levels, these
   bounds add up to one for all (`climb_le`). Any levels that fall are sound. *)
Require Import ZArith List Bool Lia Permutation Spec OneMachine.
Import ListNotations.
Open Scope Z_scope.

Definition rated := (Z * list piece)%type.  (* weight for its work, and its pieces *)
Definition beyond (a : option Z) (x : rated) := match a with None => false | Some a => a <=? fst x end.
Definition newly a t x := (t <=? fst x) && negb (beyond a x).
Fixpoint climb (xs : list rated) a levels acc {struct levels} := match levels with
  | [] => 0
  | t :: levels => let acc := fold_right (fun x l => if newly a t x then merge (pairs_of (snd x)) l else l) acc xs in
      (t - hd 0 levels) * early 0 acc + climb xs (Some t) levels acc
  end.
Fixpoint falling levels := match levels with [] => true | t :: levels => (hd 0 levels <=? t) && falling levels end.
Definition in_order (x : rated) := rising (pairs_of (snd x)) && forallb (fun p => 0 <=? amount p) (snd x) && (0 <=? fst x).

Fixpoint flat (f : rated -> bool) xs := match xs with [] => [] | x :: xs => if f x then snd x ++ flat f xs else flat f xs end.
Lemma flat_perm f g h xs : (forall x, h x = f x || g x) -> (forall x, f x = true -> g x = false) ->
  Permutation (flat f xs ++ flat g xs) (flat h xs).
Proof.
  intros H D. induction xs as [|x xs IH]; cbn [flat]; [constructor|]. rewrite H. destruct (f x) eqn:F; cbn [orb].
  - rewrite (D x F), <- app_assoc. now apply Permutation_app_head.
  - destruct (g x); [|exact IH]. rewrite Permutation_app_swap_app. now apply Permutation_app_head.
Qed.
Lemma merge_new (f : rated -> bool) xs acc : forallb in_order xs = true ->
  fold_right (fun x l => if f x then merge (pairs_of (snd x)) l else l) acc xs = pour (flat f xs) acc.
Proof.
  induction xs as [|x xs IH]; cbn [forallb fold_right flat]; [reflexivity|]. rewrite andb_true_iff. intros [A B]. rewrite (IH B).
  destruct (f x); [|reflexivity]. unfold in_order in A. rewrite !andb_true_iff in A. rewrite merge_pour by apply A. symmetry. apply pour_app.
Qed.

Section Levels.
  Variables least gap : Z.
  Definition promised j := sum (fun p => amount p * (2 * ends j - least - 2 * behind p)) (left j).
  Fixpoint dot (g : Z -> Z) (xs : list rated) js {struct xs} := match xs, js with x :: xs, j :: js => g (fst x) * promised j + dot g xs js | _, _ => 0 end.
  Variables (xs : list rated) (js : list job).
  Hypothesis same : Forall2 (fun x j => snd x = left j) xs js.
  Hypothesis ordered : forallb in_order xs = true.
  Hypothesis serving : served least gap 0 js.
  Lemma sound_js : sound js.
  Proof.
    clear serving. unfold sound. induction same as [|x j l m E E2 IH]; [constructor|]. cbn [forallb] in ordered. apply andb_true_iff in ordered.
    destruct ordered as [A B]. unfold in_order in A. rewrite !andb_true_iff, forallb_forall in A. destruct A as [[_ A] _]. constructor; [|exact (IH E2 B)].
    rewrite <- E. apply Forall_forall. intros p P. apply Z.leb_le. now apply A.
  Qed.
  Lemma mask_early m : early 0 (pool (keep m js)) <= promise least (keep m js).
  Proof. apply (early_le least gap); [now apply served_keep|]. apply keep_all. exact sound_js. Qed.
  Lemma early_0_le l t : whole l -> 0 <= t -> 0 <= early t l.
  Proof. intros W. revert t. induction W as [|[r w] l A _ IH]; intros t T; cbn [early]; [lia|]. cbn [snd] in A.
    specialize (IH (Z.max t r + w) ltac:(lia)). assert (0 <= w * (2 * Z.max t r + w)) by nia. lia. Qed.
  Lemma promised_0 j : In j js -> 0 <= promised j.
  Proof.
    intros K. assert (exists m, keep m js = [j]) as [m E].
    { clear - K. induction js as [|x l IH]; [destruct K|]. destruct K as [->|K].
      - exists [true]. cbn. now destruct l.
      - destruct (IH K) as [m E]. exists (false :: m). exact E. }
    pose proof (mask_early m) as X. pose proof (keep_all _ m _ sound_js) as S. rewrite E in X, S. pose proof (early_0_le _ 0 (pool_whole _ S) (Z.le_refl _)).
    unfold promise in X. cbn [sum fold_right] in X. fold (promised j) in X. lia.
  Qed.
  Lemma pool_keep f : pool (keep (map f xs) js) = pour (flat f xs) [].
  Proof. clear serving ordered. induction same as [|x j l m E E2 IH]; [reflexivity|]. specialize (IH E2). cbn [map keep flat]. destruct (f x); [|exact IH].
    cbn [pool fold_right]. fold (pool (keep (map f l) m)). rewrite IH, pour_app, E. reflexivity. Qed.
  Lemma promise_keep t : promise least (keep (map (fun x => t <=? fst x) xs) js) = dot (fun r => b2z (t <=? r)) xs js.
  Proof. clear serving ordered. unfold promise, sum at 1. induction same as [|x j l m E E2 IH]; [reflexivity|]. specialize (IH E2). cbn [map keep dot]. destruct (t <=? fst x); cbn [b2z fold_right];
    rewrite IH; [fold (promised j)|]; lia. Qed.
  Lemma level_le t : early 0 (pour (flat (fun x => t <=? fst x) xs) []) <= dot (fun r => b2z (t <=? r)) xs js.
  Proof. rewrite <- pool_keep, <- promise_keep. apply mask_early. Qed.
  Lemma dot_le c g g' h : (forall r, 0 <= r -> c * g r + g' r <= h r) -> c * dot g xs js + dot g' xs js <= dot h xs js.
  Proof.
    intros H. assert (Forall (fun j => 0 <= promised j) js) as P by (apply Forall_forall; exact promised_0). clear serving. revert P ordered.
    induction same as [|x j l m E E2 IH]; cbn [dot forallb]; [lia|]. intros P O. inversion P as [|y z P1 P2]. subst. apply andb_true_iff in O. destruct O as [A B].
    specialize (IH E2 P2 B). unfold in_order in A. rewrite !andb_true_iff, Z.leb_le in A. destruct A as [_ A]. specialize (H (fst x) A).
    pose proof (Z.mul_le_mono_nonneg_r _ _ _ P1 H). lia.
  Qed.
  Lemma climb_levels levels : falling levels = true -> forall a, match a with None => True | Some a => hd 0 levels <= a end ->
    climb xs a levels (pour (flat (beyond a) xs) []) <= dot (fun r => Z.min r (hd 0 levels)) xs js.
  Proof.
    induction levels as [|t levels IH]; cbn [climb falling hd]; intros F a A.
    - pose proof (dot_le 0 (fun _ => 0) (fun _ => 0) (fun r => Z.min r 0) ltac:(intros; cbv beta; lia)) as X.
      assert (dot (fun _ => 0) xs js = 0) as Y; [|lia]. clear. revert js. induction xs as [|x l IH]; intros [|j m]; cbn [dot]; try reflexivity. rewrite IH. lia.
    - apply andb_true_iff in F. destruct F as [F1 F2]. apply Z.leb_le in F1. cbv zeta.
      rewrite merge_new, <- pour_app by exact ordered. rewrite (pour_perm _ (flat (beyond (Some t)) xs)).
      2: { apply flat_perm; unfold newly, beyond.
        - intros x. destruct a as [a|]; [|now rewrite andb_true_r, orb_false_r].
          destruct (Z.leb_spec t (fst x)), (Z.leb_spec a (fst x)); try reflexivity; lia.
        - intros x H. apply andb_true_iff in H. destruct H as [_ H]. now apply negb_true_iff in H. }
      specialize (IH F2 (Some t) F1). pose proof (level_le t) as L. change (fun x : rated => t <=? fst x) with (beyond (Some t)) in L.
      pose proof (Z.mul_le_mono_nonneg_l _ _ (t - hd 0 levels) ltac:(lia) L).
      pose proof (dot_le (t - hd 0 levels) (fun r => b2z (t <=? r)) (fun r => Z.min r (hd 0 levels)) (fun r => Z.min r t)) as X.
      assert (forall r, 0 <= r -> (t - hd 0 levels) * b2z (t <=? r) + Z.min r (hd 0 levels) <= Z.min r t) as Y.
      { intros r R. destruct (Z.leb_spec t r); cbn [b2z]; lia. }
      specialize (X Y). lia.
  Qed.
  Theorem climb_le levels : falling levels = true -> climb xs None levels [] <= dot (fun r => r) xs js.
  Proof.
    intros F. pose proof (climb_levels levels F None Logic.I) as X. assert (flat (beyond None) xs = []) as E.
    { clear. induction xs as [|x l IH]; [reflexivity|exact IH]. }
    rewrite E in X. cbn [pour fold_right] in X. pose proof (dot_le 0 (fun _ => 0) (fun r => Z.min r (hd 0 levels)) (fun r => r) ltac:(intros; cbv beta; lia)). lia.
  Qed.
End Levels.

(* One machine that may interrupt: what batches have in common with it.

   A job is what is left of a request, piece by piece: when it may be done at the earliest, how much of it, and how long
   the request takes after it. In a batch of D ticks the amounts done of all jobs are at most D. So the last end is late
   (`counted_le`), and the mean times of the work are at least those of a machine that is never idle (`early_le`). *)
Require Import ZArith List Bool Lia Permutation Spec.
Import ListNotations.
Open Scope Z_scope.

Record piece := Piece { from : Z; amount : Z; behind : Z }.
Record job := Job { ends : Z; left : list piece }.
Inductive serve t D : Z -> job -> job -> Prop :=
| nothing j : serve t D 0 j j
| part c r w k l x : r <= t -> 0 <= x <= w -> t + D + k <= c ->
    serve t D x (Job c (Piece r w k :: l)) (Job c (Piece r (w - x) k :: l))
| rest_of c r w k l : r <= t -> 0 <= w -> t + D + k <= c -> serve t D w (Job c (Piece r w k :: l)) (Job c l).
Inductive serves t D : Z -> list job -> list job -> Prop :=
| no_job : serves t D 0 [] []
| each x X j j' js js' : serve t D x j j' -> serves t D X js js' -> serves t D (x + X) (j :: js) (j' :: js').
Inductive served (least gap : Z) : Z -> list job -> Prop :=
| all_done now js : Forall (fun j => left j = []) js -> served least gap now js
| later_on now t D X js js' : now <= t -> 0 <= D -> serves t D X js js' -> X <= D -> (0 < X -> least <= D /\ X + gap <= D) ->
    served least gap (t + D) js' -> served least gap now js.

Lemma serves_pos t D X js js' : serves t D X js js' -> 0 <= X.
Proof. induction 1 as [|x X j j' js js' S _ IH]; [lia|]. inversion S; lia. Qed.

(* Some of the jobs. *)
Fixpoint keep {A} (m : list bool) (l : list A) := match m, l with b :: m, x :: l => if b then x :: keep m l else keep m l
  | _, _ => [] end.
Lemma serves_keep t D X js js' m : serves t D X js js' -> exists Y, 0 <= Y <= X /\ serves t D Y (keep m js) (keep m js').
Proof.
  intros S. revert m. induction S as [|x X j j' js js' S SS IH]; intros m.
  - exists 0. destruct m; cbn; (split; [lia|constructor]).
  - destruct m as [|b m]; cbn [keep].
    + exists 0. split; [|constructor]. pose proof (serves_pos _ _ _ _ _ SS). inversion S; lia.
    + destruct (IH m) as (Y & B & K). assert (0 <= x) by (inversion S; lia). destruct b.
      * exists (x + Y). split; [lia|now constructor].
      * exists Y. split; [lia|exact K].
Qed.
Lemma keep_all {A} (P : A -> Prop) m l : Forall P l -> Forall P (keep m l).
Proof. intros F. revert m. induction F; intros [|[] m]; cbn [keep]; auto. Qed.
Lemma served_keep least gap now js m : served least gap now js -> served least gap now (keep m js).
Proof.
  induction 1 as [now js F|now t D X js js' N P S B L R IH]; [constructor; now apply keep_all|].
  destruct (serves_keep _ _ _ _ _ m S) as (Y & YB & K). apply (later_on _ _ _ t D Y _ (keep m js')); auto; lia || (intros; destruct L; lia).
Qed.

(* --- The last end -------------------------------------------------------------------------------------------- *)
Section Last.
  Variables h k last : Z.
  Definition counted js := sum (fun j => sum (fun p => if0 ((h <=? from p) && (k <=? behind p)) (amount p)) (left j)) js.
  Lemma counted_serve t D X js js' : serves t D X js js' -> Forall (fun j => ends j <= last) js ->
    Forall (fun j => ends j <= last) js' /\ counted js <= counted js' + if0 ((h <=? t) && (t + D + k <=? last)) X.
  Proof.
    unfold counted. induction 1 as [|x X j j' js js' S SS IH]; intros F; [split; [constructor|destruct (_ && _); cbn; lia]|].
    inversion F as [|y l F1 F2]. subst. destruct (IH F2) as [A B]. pose proof (serves_pos _ _ _ _ _ SS) as XP.
    cbn [sum fold_right] in *. unfold sum in *.
    inversion S as [j0|c r w q l x0 R W E|c r w q l R W E]; subst; cbn [ends left fold_right from amount behind] in *.
    - split; [now constructor|]. rewrite Z.add_0_l. lia.
    - split; [now constructor|]. destruct (Z.leb_spec h r), (Z.leb_spec k q), (Z.leb_spec h t), (Z.leb_spec (t + D + k) last); cbn [andb if0] in *; lia.
    - split; [now constructor|]. destruct (Z.leb_spec h r), (Z.leb_spec k q), (Z.leb_spec h t), (Z.leb_spec (t + D + k) last); cbn [andb if0] in *; lia.
  Qed.
  Lemma counted_le least gap now js : served least gap now js -> Forall (fun j => ends j <= last) js ->
    counted js <= Z.max 0 (last - k - Z.max h now).
  Proof.
    induction 1 as [now js F|now t D X js js' N P S B L R IH]; intros E.
    - unfold counted, sum. clear E. induction F as [|j js A _ IH]; cbn [fold_right]; [lia|]. rewrite A. cbn [fold_right]. lia.
    - destruct (counted_serve _ _ _ _ _ S E) as [E' C]. specialize (IH E').
      destruct (Z.leb_spec h t), (Z.leb_spec (t + D + k) last); cbn [andb if0] in C; lia.
  Qed.
End Last.

(* --- Mean times ---------------------------------------------------------------------------------------------- *)
(* (release, work) in the order of releases, served early: twice the sum of work times the middle of its time *)
Fixpoint early now l := match l with [] => 0 | (r, w) :: l => let b := Z.max now r in w * (2 * b + w) + early (b + w) l end.
Fixpoint add r w l := match l with [] => [(r, w)] | (q, v) :: m =>
  if r <? q then (r, w) :: l else if r =? q then (r, w + v) :: m else (q, v) :: add r w m end.
Definition whole l := Forall (fun p : Z * Z => 0 <= snd p) l.
Lemma add_whole r w l : 0 <= w -> whole l -> whole (add r w l).
Proof. intros W. induction 1 as [|[q v] m V H IH]; cbn [add]; [now repeat constructor|]. cbn [snd] in V.
  destruct (r <? q); [now repeat constructor|]. destruct (r =? q); constructor; auto. cbn. lia. Qed.
Lemma add_comm r w q v l : add r w (add q v l) = add q v (add r w l).
Proof.
  induction l as [|[p u] l IH]; cbn [add].
  - destruct (Z.ltb_spec r q), (Z.eqb_spec r q), (Z.ltb_spec q r), (Z.eqb_spec q r); try lia; try reflexivity; subst; f_equal; f_equal; lia.
  - destruct (Z.ltb_spec q p), (Z.eqb_spec q p), (Z.ltb_spec r p), (Z.eqb_spec r p); try lia; cbn [add];
      destruct (Z.ltb_spec r q), (Z.eqb_spec r q), (Z.ltb_spec q r), (Z.eqb_spec q r); try lia; subst; cbn [add];
      repeat match goal with |- context [?a <? ?b] => destruct (Z.ltb_spec a b); try lia
        | |- context [?a =? ?b] => destruct (Z.eqb_spec a b); try lia end; rewrite ?IH; try reflexivity; f_equal; f_equal; lia.
Qed.
Lemma early_mono l : whole l -> forall now now', now <= now' -> early now l <= early now' l.
Proof. induction 1 as [|[r w] l W _ IH]; intros now now' H; cbn [early]; [lia|]. cbn [snd] in W.
  specialize (IH (Z.max now r + w) (Z.max now' r + w) ltac:(lia)). nia. Qed.
Lemma early_part l r x w : whole l -> 0 <= x <= w -> forall t, r <= t ->
  early t (add r w l) = x * (2 * t + x) + early (t + x) (add r (w - x) l).
Proof.
  intros H X. induction H as [|[q v] l V _ IH]; intros t T; cbn [add].
  - cbn [early]. rewrite !Z.max_l by lia. ring.
  - cbn [snd] in V. destruct (Z.ltb_spec r q); [|destruct (Z.eqb_spec r q)]; cbn [early].
    + rewrite (Z.max_l t r), (Z.max_l (t + x) r) by lia. replace (t + x + (w - x)) with (t + w) by lia. ring.
    + rewrite (Z.max_l t r), (Z.max_l (t + x) r) by lia. replace (t + x + (w - x + v)) with (t + (w + v)) by lia. ring.
    + rewrite (Z.max_l t q), (Z.max_l (t + x) q) by lia. rewrite (IH (t + v)) by lia.
      replace (t + v + x) with (t + x + v) by lia. ring.
Qed.
Lemma early_0 l r : whole l -> forall t, r <= t -> early t (add r 0 l) = early t l.
Proof.
  induction 1 as [|[q v] l V _ IH]; intros t T; cbn [add].
  - cbn [early]. lia.
  - cbn [snd] in V. destruct (Z.ltb_spec r q); [|destruct (Z.eqb_spec r q)]; cbn [early].
    + rewrite (Z.max_l t r), Z.mul_0_l, !Z.add_0_r by lia. reflexivity.
    + subst. reflexivity.
    + rewrite (Z.max_l t q), (IH (t + v)) by lia. reflexivity.
Qed.
Definition pour (ps : list piece) l := fold_right (fun p l => add (from p) (amount p) l) l ps.
Definition pool js := fold_right (fun j l => pour (left j) l) [] js.
Definition sound js := Forall (fun j => Forall (fun p => 0 <= amount p) (left j)) js.
Lemma pour_app ps qs l : pour (ps ++ qs) l = pour ps (pour qs l). Proof. apply fold_right_app. Qed.
Lemma pour_add ps r w l : pour ps (add r w l) = add r w (pour ps l).
Proof. induction ps as [|p ps IH]; cbn [pour fold_right]; [reflexivity|]. unfold pour in IH. rewrite IH. apply add_comm. Qed.
Lemma pour_whole ps l : Forall (fun p => 0 <= amount p) ps -> whole l -> whole (pour ps l).
Proof. intros F W. induction F as [|p ps P _ IH]; [exact W|]. now apply add_whole. Qed.
Lemma pool_whole js : sound js -> whole (pool js).
Proof. induction 1; cbn [pool fold_right]; [constructor|]. now apply pour_whole. Qed.
Lemma sound_serves t D X js js' : serves t D X js js' -> sound js -> sound js'.
Proof.
  unfold sound. induction 1 as [|x X j j' js js' S SS IH]; intros F; [constructor|]. inversion F as [|y l A B]. subst.
  constructor; [|now apply IH]. inversion S; subst; cbn [left] in *; [exact A| |]; inversion A; subst; cbn [amount] in *; auto.
  constructor; [cbn; lia|assumption].
Qed.
Lemma early_serves t D X js js' : serves t D X js js' -> sound js -> forall ps u, Forall (fun p => 0 <= amount p) ps -> t <= u ->
  early u (pour ps (pool js)) = X * (2 * u + X) + early (u + X) (pour ps (pool js')).
Proof.
  induction 1 as [|x X j j' js js' S SS IH]; intros F ps u P U; [rewrite !Z.add_0_r; lia|].
  inversion F as [|y l A B]. subst. pose proof (sound_serves _ _ _ _ _ SS B) as B'. cbn [pool fold_right]. fold (pool js) (pool js').
  inversion S as [j0|c r w q l x0 R W E|c r w q l R W E]; subst; cbn [left] in *.
  - rewrite <- !pour_app. rewrite (IH B (ps ++ left j') u) by (auto; now apply Forall_app). rewrite !Z.add_0_l. reflexivity.
  - inversion A as [|y l0 A1 A2]. subst. cbn [amount] in A1. cbn [pour fold_right from amount]. fold (pour l (pool js)) (pour l (pool js')).
    rewrite !pour_add, <- !pour_app. rewrite (early_part _ r x w) by (lia || (apply pour_whole; [now apply Forall_app|now apply pool_whole])).
    pose proof (IH B (Piece r (w - x) q :: ps ++ l) (u + x)) as Y. cbn [pour fold_right from amount] in Y.
    fold (pour (ps ++ l) (pool js)) (pour (ps ++ l) (pool js')) in Y. rewrite Y; [|constructor; [cbn; lia|now apply Forall_app]|lia].
    replace (u + x + X) with (u + (x + X)) by lia. ring.
  - inversion A as [|y l0 A1 A2]. subst. cbn [amount] in A1. cbn [pour fold_right from amount]. fold (pour l (pool js)).
    rewrite pour_add, <- !pour_app. rewrite (early_part _ r x x) by (lia || (apply pour_whole; [now apply Forall_app|now apply pool_whole])).
    rewrite Z.sub_diag, early_0 by (lia || (apply pour_whole; [now apply Forall_app|now apply pool_whole])).
    rewrite (IH B (ps ++ l) (u + x)) by (auto; try lia; now apply Forall_app).
    replace (u + x + X) with (u + (x + X)) by lia. ring.
Qed.
Section Means.
  Variables least gap : Z.
  (* what the ends promise: of each piece, of its amount times (twice) the middle of its last batch *)
  Definition promise js := sum (fun j => sum (fun p => amount p * (2 * ends j - least - 2 * behind p)) (left j)) js.
  Lemma promise_serves t D X js js' : serves t D X js js' -> promise js' + X * (2 * (t + D) - least) <= promise js.
  Proof.
    unfold promise. induction 1 as [|x X j j' js js' S SS IH]; [cbn; lia|]. cbn [sum fold_right] in *. unfold sum in *.
    inversion S as [j0|c r w q l x0 R W E|c r w q l R W E]; subst; cbn [ends left fold_right from amount behind] in *.
    - lia.
    - pose proof (Z.mul_le_mono_nonneg_l (2 * (t + D) - least) (2 * c - least - 2 * q) x ltac:(lia) ltac:(lia)). nia.
    - pose proof (Z.mul_le_mono_nonneg_l (2 * (t + D) - least) (2 * c - least - 2 * q) x ltac:(lia) ltac:(lia)). nia.
  Qed.
  Theorem early_le now js : served least gap now js -> sound js -> early now (pool js) <= promise js.
  Proof.
    induction 1 as [now js F|now t D X js js' N P S B L R IH]; intros E.
    - assert (pool js = [] /\ promise js = 0) as [-> ->]; [|cbn; lia]. unfold pool, promise, sum. clear E.
      induction F as [|j js A _ [H1 H2]]; cbn [fold_right]; [easy|]. rewrite A, H1, H2. easy.
    - pose proof (sound_serves _ _ _ _ _ S E) as E'. specialize (IH E'). pose proof (serves_pos _ _ _ _ _ S) as XP.
      pose proof (early_mono _ (pool_whole _ E) now t N). pose proof (early_serves _ _ _ _ _ S E [] t (Forall_nil _) (Z.le_refl _)) as Y.
      cbn [pour fold_right] in Y. pose proof (early_mono _ (pool_whole _ E') (t + X) (t + D) ltac:(lia)).
      pose proof (promise_serves _ _ _ _ _ S). assert (X * (2 * t + X) <= X * (2 * (t + D) - least)) by nia. lia.
  Qed.
End Means.

(* The order in which pieces are poured plays no role; those of a request are in order, and merged at once. *)
Lemma pour_perm ps qs l : Permutation ps qs -> pour ps l = pour qs l.
Proof.
  induction 1 as [|p ps qs _ IH|p q ps|ps qs rs _ A _ B]; cbn [pour fold_right]; [reflexivity|f_equal; exact IH|apply add_comm|congruence].
Qed.
Fixpoint merge (l1 : list (Z * Z)) : list (Z * Z) -> list (Z * Z) := match l1 with [] => fun l2 => l2 | (r, w) :: t1 => fix go l2 := match l2 with [] => l1
  | (q, v) :: t2 => if r <? q then (r, w) :: merge t1 l2 else if r =? q then (r, w + v) :: merge t1 t2
    else (q, v) :: go t2 end end.
Fixpoint rising (l : list (Z * Z)) := match l with (r, _) :: (((q, _) :: _) as m) => (r <? q) && rising m | _ => true end.
Definition pairs_of (ps : list piece) := map (fun p => (from p, amount p)) ps.
Ltac compare := repeat match goal with |- context [?a <? ?b] => destruct (Z.ltb_spec a b); try lia
  | |- context [?a =? ?b] => destruct (Z.eqb_spec a b); try lia end.
Lemma merge_pour ps : rising (pairs_of ps) = true -> forall l, merge (pairs_of ps) l = pour ps l.
Proof.
  induction ps as [|p ps IH]; intros H l; [reflexivity|].
  assert (rising (pairs_of ps) = true /\ match pairs_of ps with [] => True | (q, _) :: _ => from p < q end) as [H1 H2].
  { cbn [pairs_of map rising] in H. fold (pairs_of ps) in H. destruct (pairs_of ps) as [|[q v] m]; [easy|].
    apply andb_true_iff in H. destruct H as [A B]. split; [exact B|now apply Z.ltb_lt]. }
  specialize (IH H1). cbn [pour fold_right]. fold (pour ps l). rewrite <- IH. clear IH H H1. cbn [pairs_of map]. fold (pairs_of ps).
  induction l as [|[q v] l IH]; [|cbn [merge] in *]; [|destruct (Z.ltb_spec (from p) q); [|destruct (Z.eqb_spec (from p) q)]];
    [| | |rewrite IH]; destruct (pairs_of ps) as [|[a b] m]; cbn [merge add]; compare; cbn [add]; now compare.
Qed.

(* Schedules without absolute times, and what a run costs, tick by tick.

   What may happen next depends on how long each request still waits, not on the time (`norm`; without `timed`, not on
   waiting either, since a machine may idle). Each objective is a sum over ticks of a rate that the state alone gives,
   less a number that the instance gives (`meter`): of unfinished requests, of their weights, of batches. *)
Require Import ZArith List Bool Lia Spec Referee.
Import ListNotations.
Open Scope Z_scope.

(* The state as of now: ticks until it is ready (0 if time plays no role), and whether tokens and ends have been. *)
Definition mark (o : option Z) := option_map (fun _ => 0) o.
Definition norm (timed : bool) now s := State (known s) (device s) (host s) (todo s) (rest s)
  (if timed then Z.max 0 (ready s - now) else 0) (window s) (due s) (going s) (mark (first s)) (mark (over s)) 0 (wt s).

Lemma local_norm timed M t s a : local M t s a -> local M 0 (norm timed t s) a.
Proof.
  intros (A & B & C & D & E & F & G). unfold local.
  assert (forall P : Prop, (calling t s -> P) -> (calling 0 (norm timed t s) -> P)) as W.
  { intros P H [X Y]. apply H. split; [exact X|]. destruct timed; cbn [norm ready] in Y; lia. }
  split. { intros H. destruct (A H) as [X Y]. split; cbn [norm over ready]; [now rewrite X|destruct timed; lia]. }
  split; [exact B|]. split; [exact C|]. split; [exact D|].
  split. { destruct E as (E1 & E2 & E3). split; [|split; [|exact E3]].
    - intros H. destruct (E1 H) as [X|[X Y]]; [left; exact X|right; split; [exact X|]]. unfold not. apply W. exact Y.
    - intros H. destruct (E2 H) as [X|[X Y]]; [left; exact X|right; split; [exact X|]]. unfold not. apply W. exact Y. }
  split; [|exact G]. destruct F as [F1 F2]. split; [exact F1|]. intros X. exact (W _ F2 X).
Qed.

Lemma norm_next timed M t D s a : 0 <= D -> norm timed (t + D) (next M (t + D) s a) = norm timed D (next M D (norm timed
  t s) a).
Proof.
  intros H. unfold next. change (m2 (norm timed t s) a) with (m2 s a). change (h2 (norm timed t s) a) with (h2 s a).
  cbn [norm known device host todo rest ready window due going first over arrived wt].
  destruct (work a =? 0); [|destruct (negb _); [|destruct (negb _); [|destruct (rest s) as [|[c d] r]]]];
    unfold norm; cbn [known device host todo rest ready window due going first over arrived wt]; f_equal;
    try (destruct timed; [lia|reflexivity]); destruct (first s); try reflexivity; destruct (over s); reflexivity.
Qed.

Lemma nexts_norm timed M t D ss aa : 0 <= D ->
  map (norm timed (t + D)) (nexts M (t + D) ss aa) = map (norm timed D) (nexts M D (map (norm timed t) ss) aa).
Proof. intros H. revert aa. induction ss as [|s ss IH]; intros [|a aa]; simpl; try reflexivity.
  now rewrite norm_next, IH. Qed.
Lemma total_norm timed M t ss aa : total M (map (norm timed t) ss) aa = total M ss aa.
Proof. revert aa. induction ss as [|s ss IH]; intros [|a aa]; simpl; try reflexivity. now rewrite IH. Qed.
Lemma locals_norm timed M t ss aa : Forall2 (local M t) ss aa -> Forall2 (local M 0) (map (norm timed t) ss) aa.
Proof. induction 1; simpl; constructor; [now apply local_norm|assumption]. Qed.
Lemma norm_wait t s : norm true (t + 1) s = norm true 1 (norm true t s).
Proof. unfold norm; simpl. f_equal; try lia; destruct (first s), (over s); reflexivity. Qed.
Lemma map_wait t ss : map (norm true (t + 1)) ss = map (norm true 1) (map (norm true t) ss).
Proof. rewrite map_map. apply map_ext. apply norm_wait. Qed.

(* What a tick adds to the objective, and a whole run. *)
Definition end_of o s := match o with Ttft => first s | _ => over s end.
Definition weigh o s := match o with Weighted => wt s | _ => 1 end.
Definition rate o ss := match o with
  | Busy => 0
  | Makespan => b2z (existsb (fun s => negb (some (over s))) ss)
  | _ => sum (fun s => if0 (negb (some (end_of o s))) (weigh o s)) ss end.
Definition fee o ss D := match o with Busy => D | _ => rate o ss * D end.
Definition timed o := match o with Busy => false | _ => true end.
Fixpoint meter I o now ss bs {struct bs} := match bs with [] => 0 | Batch t aa :: bs =>
  let D := lasts (cost I) (total (mach I) ss aa) in
  rate o ss * (t - now) + fee o ss D + meter I o (t + D) (nexts (mach I) (t + D) ss aa) bs end.

Lemma lasts_1 fs l : 1 <= lasts fs l.
Proof. unfold lasts. induction fs; simpl; lia. Qed.

Section Sums.
  Variable I : instance.
  Variable e : state -> option Z.
  Variable w : state -> Z.
  Definition at_now now s := w s * match e s with None => now | Some x => x end.
  Hypothesis step : forall t s a E, local (mach I) t s a -> w (next (mach I) E s a) = w s /\
    (e (next (mach I) E s a) = e s \/ e s = None /\ e (next (mach I) E s a) = Some E).
  Lemma sum_nexts now t E ss aa : Forall2 (local (mach I) t) ss aa ->
    sum (at_now E) (nexts (mach I) E ss aa) = sum (at_now now) ss + (E - now) * sum (fun s => if0 (negb (some (e s))) (w
      s)) ss.
  Proof.
    unfold at_now. induction 1 as [|s a ss aa L _ IH]; simpl; [lia|]. rewrite IH.
      destruct (step t s a E L) as [W [X|[X Y]]];
      rewrite W, ?X, ?Y; [destruct (e s); simpl; lia|simpl; lia].
  Qed.
End Sums.

Lemma step_over M t s a E : local M t s a -> over (next M E s a) = over s \/ over s = None
  /\ over (next M E s a) = Some E.
Proof.
  intros (A & _). unfold next. destruct (Z.eqb_spec (work a) 0) as [K|K]; [now left|]. destruct (A K) as [X _].
  destruct (negb _); [now left|]. destruct (negb _); [now left|].
    destruct (rest s) as [|[c d] r]; [right|left]; simpl; tauto.
Qed.
Lemma step_first M s a E : first (next M E s a) = first s \/ first s = None /\ first (next M E s a) = Some E.
Proof.
  unfold next. destruct (work a =? 0); [now left|]. destruct (negb _); [now left|].
  destruct (negb _); [|destruct (rest s) as [|[c d] r]]; simpl; destruct (first s); tauto.
Qed.
Lemma step_wt M s a E : wt (next M E s a) = wt s /\ arrived (next M E s a) = arrived s.
Proof. unfold next. destruct (work a =? 0); [easy|]. destruct (negb _); [easy|]. destruct (negb _); [easy|].
  destruct (rest s) as [|[c d] r]; easy. Qed.
Definition inv s := over s <> None -> first s <> None.
Lemma step_inv M s a E : inv s -> inv (next M E s a).
Proof.
  unfold inv, next. destruct (work a =? 0); [easy|]. destruct (negb _); [easy|].
    destruct (negb _); [|destruct (rest s) as [|[c d] r]];
    simpl; destruct (first s); try easy.
Qed.
Lemma nexts_inv M E ss aa : Forall inv ss -> Forall inv (nexts M E ss aa).
Proof. intros F. revert aa. induction F as [|s ss V F IH]; intros [|a aa]; simpl; constructor;
  [now apply step_inv|apply IH]. Qed.
Lemma run_inv I now ss bs zz d : run I now ss bs zz d -> Forall inv ss -> Forall inv zz.
Proof. induction 1; [easy|]. intros F. now apply IHrun, nexts_inv. Qed.

Definition summed o := match o with Flow | Weighted | Ttft => True | _ => False end.
Lemma step_sum I o : summed o -> forall t s a E, local (mach I) t s a -> weigh o (next (mach I) E s a) = weigh o s /\
    (end_of o (next (mach I) E s a) = end_of o s \/ end_of o s = None /\ end_of o (next (mach I) E s a) = Some E).
Proof.
  intros S t s a E L. pose proof (step_over _ _ _ _ E L). pose proof (step_first (mach I) s a E).
    pose proof (step_wt (mach I) s a E) as [W _].
  destruct o; simpl in *; tauto.
Qed.
Lemma meter_sum I o now ss bs zz d : summed o -> run I now ss bs zz d -> Forall (fun z => end_of o z <> None) zz ->
  sum (fun z => weigh o z * at_ (end_of o z)) zz = sum (at_now (end_of o) (weigh o) now) ss + meter I o now ss bs.
Proof.
  intros S R F. induction R as [now ss|now ss t aa bs zz d T L J D R IH]; simpl.
  - rewrite Z.add_0_r. induction F as [|z zz N F IH]; simpl; [reflexivity|]. rewrite IH. unfold at_now at 2.
    destruct (end_of o z); [reflexivity|congruence].
  - fold D. rewrite (IH F), (sum_nexts I (end_of o) (weigh o) (step_sum I o S) now t (t + D) ss aa L).
    destruct o; try destruct S; simpl; lia.
Qed.
Lemma run_arrived I now ss bs zz d o : run I now ss bs zz d ->
  sum (fun s => weigh o s * arrived s) zz = sum (fun s => weigh o s * arrived s) ss.
Proof.
  induction 1 as [|now ss t aa bs zz d T L J D R IH]; [reflexivity|]. rewrite IH. clear - L.
  generalize (t + D). intros E. induction L as [|s a ss aa L _ IH]; simpl; [reflexivity|]. rewrite IH.
  destruct (step_wt (mach I) s a E) as [W A]. destruct o; simpl; rewrite ?W, A; lia.
Qed.
Lemma run_busy I now ss bs zz d : run I now ss bs zz d -> meter I Busy now ss bs = d.
Proof. induction 1; simpl; [reflexivity|]. fold D. rewrite IHrun. lia. Qed.

(* The last end. *)
Definition last_end (zz : list state) := fold_right (fun s x => Z.max (at_ (over s)) x) 0 zz.
Lemma last_in z zz x : In z zz -> over z = Some x -> x <= last_end zz.
Proof. induction zz as [|y zz IH]; simpl; [easy|]. intros [->|K] E; [rewrite E; simpl; lia|]. specialize (IH K E).
  lia. Qed.
Lemma nexts_keeps M t E ss aa s x : Forall2 (local M t) ss aa -> In s ss -> over s = Some x ->
  exists s', In s' (nexts M E ss aa) /\ over s' = Some x.
Proof.
  intros L K H. induction L as [|s1 a ss aa L L2 IHL]; [destruct K|]. destruct K as [->|K]; simpl.
  - exists (next M E s a). split; [now left|]. destruct (step_over _ _ _ _ E L) as [X|[X _]]; congruence.
  - destruct (IHL K) as (s' & A & B). exists s'. split; [now right|exact B].
Qed.
Lemma run_keeps I now ss bs zz d : run I now ss bs zz d -> forall s x, In s ss -> over s = Some x -> x <= last_end zz.
Proof.
  induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros s x K E; [now apply (last_in s)|].
  destruct (nexts_keeps _ _ (t + D) _ _ _ _ L K E) as (s' & A & B). exact (IH _ _ A B).
Qed.
Definition undone s := negb (some (over s)).
Lemma nexts_done M t E ss aa : Forall2 (local M t) ss aa -> existsb undone ss = false
  -> existsb undone (nexts M E ss aa) = false.
Proof.
  induction 1 as [|s a ss aa L L2 IHL]; intros N; [reflexivity|].
  simpl in *. apply orb_false_iff in N. destruct N as [N1 N2]. apply orb_false_iff. split; [|now apply IHL].
  destruct (step_over _ _ _ _ E L) as [X|[X Y]]; unfold undone in *; [now rewrite X|now rewrite X in N1].
Qed.
Lemma done_meter I now ss bs zz d : run I now ss bs zz d -> existsb undone ss = false -> meter I Makespan now ss bs = 0.
Proof.
  induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros N; [reflexivity|].
  simpl. fold undone D. rewrite N. simpl. rewrite IH; [lia|]. exact (nexts_done _ _ _ _ _ L N).
Qed.
Lemma nexts_ends M t E ss aa : Forall2 (local M t) ss aa -> existsb undone ss = true
  -> existsb undone (nexts M E ss aa) = false ->
  exists s, In s (nexts M E ss aa) /\ over s = Some E.
Proof.
  induction 1 as [|s a ss aa L L2 IH]; simpl; [discriminate|]. intros U N. apply orb_false_iff in N.
    destruct N as [N1 N2].
  destruct (undone s) eqn:V.
  - exists (next M E s a). split; [now left|]. destruct (step_over _ _ _ _ E L) as [X|[X Y]]; [|exact Y].
    unfold undone in *. rewrite X in N1. congruence.
  - destruct (IH U N2) as (s' & A & B). exists s'. split; [now right|exact B].
Qed.
Lemma meter_makespan I now ss bs zz d : run I now ss bs zz d -> existsb undone ss = true -> existsb undone zz = false ->
  now + meter I Makespan now ss bs <= last_end zz.
Proof.
  induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros U F; [congruence|].
  cbn [meter]. fold D. unfold fee, rate. fold undone. rewrite U. cbn [b2z].
    destruct (existsb undone (nexts (mach I) (t + D) ss aa)) eqn:N.
  - specialize (IH eq_refl F). lia.
  - rewrite (done_meter _ _ _ _ _ _ R N). destruct (nexts_ends _ _ _ _ _ L U N) as (s & A & B).
    pose proof (run_keeps _ _ _ _ _ _ R s _ A B). lia.
Qed.

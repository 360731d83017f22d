(* The referee: a program that executes a schedule. It accepts what Spec.v calls valid, with its value, and nothing else
   (`referee_iff`).

   Each rule has a test, with `b` after its name; the test is true where the rule holds, case by case. So a schedule that is
   executed is a run, and a run is executed, by induction over its batches. *)
Require Import ZArith List Bool Lia Spec.
Import ListNotations.
Open Scope Z_scope.

(* --- The program --------------------------------------------------------------------------------------------- *)
Definition is_h (k : handling) (w : option handling) := match w, k with
  | Some Preserve, Preserve | Some Discard, Discard | Some Swap, Swap | Some Free, Free => true | _, _ => false end.
Definition some {A} (o : option A) := match o with None => false | _ => true end.
Definition callingb t s := some (window s) && (t <? ready s).
Definition by_R9b k s := is_h Free (window s) || due s && is_h k (window s).
Definition withinb x (limit : option Z) := match limit with None => true | Some l => x <=? l end.
Definition nz x := negb (x =? 0).
Definition imp (a b : bool) := negb a || b.
Definition R2b t s a := imp (nz (work a)) (negb (some (over s)) && (ready s <=? t)).
Definition R3b M s a := imp (nz (work a)) ((1 <=? work a) && (work a <=? known s - m2 s a) && (chunked M
  || (work a =? known s - m2 s a))).
Definition R4b s a := imp (nz (work a)) ((h2 s a =? 0) && imp (nz (drop a)) (by_R9b Discard s)
  && imp (nz (out a)) (by_R9b Swap s)).
Definition R5_pauseb s a := imp (going s) (nz (work a) || nz (drop a) || nz (out a)).
Definition R8b M t s a :=
  imp (nz (drop a)) (by_R9b Discard s || evict M && negb (callingb t s)) && imp (nz (out a)) (by_R9b Swap s || evict M
    && negb (callingb t s))
  && (partial M || imp (nz (drop a)) (drop a =? device s + host s) && imp (nz (out a)) (out a =? m1 s a)
    && imp (nz (back a)) (back a =? h1 s a + out a)).
Definition R9b t s a :=
  imp (due s) (imp (is_h Discard (window s)) (drop a =? device s) && imp (is_h Swap (window s)) (out a =? device s))
  && imp (callingb t s) (imp (is_h Preserve (window s)) (back a =? 0)).
Definition R10b s a := (0 <=? drop a) && (drop a <=? device s + host s) && (0 <=? out a) && (out a <=? m1 s a)
  && (0 <=? back a) && (back a <=? h1 s a + out a).
Definition localb M t s a := R2b t s a && R3b M s a && R4b s a && R5_pauseb s a && R8b M t s a && R9b t s a && R10b s a.
Definition fitsb M l :=
  withinb (tok l) (batch_tokens M) && withinb (ptok l) (prefill_tokens M)
    && withinb (ndec l + npre l) (batch_requests M)
  && withinb (blk l) (option_map (fun m => m / block M) (memory M)) && withinb (hos l) (host_memory M).
Definition jointb M l := fitsb M l && (hybrid M || (ndec l <=? 0) || (npre l <=? 0)) && ((0 <? ndec l + npre l)
  || (0 <? nout l + nin l)).
Fixpoint localsb M t ss aa {struct ss} := match ss, aa with
  | [], [] => true | s :: ss, a :: aa => localb M t s a && localsb M t ss aa | _, _ => false end.
Fixpoint runb I now ss bs {struct bs} : option (list state * Z) := match bs with
  | [] => Some (ss, 0)
  | Batch t aa :: bs =>
      let l := total (mach I) ss aa in
      if (now <=? t) && localsb (mach I) t ss aa && jointb (mach I) l then
        let D := lasts (cost I) l in
        match runb I (t + D) (nexts (mach I) (t + D) ss aa) bs with Some (zz, d) => Some (zz, D + d) | None => None end
      else None
  end.
Definition referee I bs g : option Z := match runb I 0 (initial I) bs with
  | Some (zz, d) => if forallb (fun s => some (over s)) zz then Some (result g zz d) else None
  | None => None end.

(* --- It decides the rules ------------------------------------------------------------------------------------ *)
Lemma is_h_iff k w : is_h k w = true <-> w = Some k.
Proof. destruct w as [[]|], k; simpl; intuition congruence. Qed.
Lemma some_iff {A} (o : option A) : some o = true <-> o <> None.
Proof. destruct o; simpl; intuition congruence. Qed.
Lemma some_no {A} (o : option A) : some o = false <-> o = None.
Proof. destruct o; simpl; intuition congruence. Qed.
Lemma nz_iff x : nz x = true <-> x <> 0.
Proof. unfold nz. rewrite negb_true_iff, Z.eqb_neq. tauto. Qed.
Lemma imp_iff a b : imp a b = true <-> (a = true -> b = true).
Proof. destruct a, b; simpl; intuition congruence. Qed.
Lemma calling_iff t s : callingb t s = true <-> calling t s.
Proof. unfold callingb, calling. rewrite andb_true_iff, some_iff, Z.ltb_lt. tauto. Qed.
Lemma by_R9_iff k s : by_R9b k s = true <-> by_R9 k s.
Proof. unfold by_R9b, by_R9. rewrite orb_true_iff, andb_true_iff, !is_h_iff. tauto. Qed.
Lemma within_iff x l : withinb x l = true <-> within x l.
Proof. destruct l; simpl; [apply Z.leb_le|tauto]. Qed.
Lemma or_iff (b : bool) (P : Prop) (Q : Prop) : (P <-> Q) -> (b = true \/ P <-> (b = false -> Q)).
Proof. destruct b; intuition congruence. Qed.
Lemma not_calling t s : negb (callingb t s) = true <-> ~ calling t s.
Proof. rewrite negb_true_iff, <- calling_iff. destruct (callingb t s); intuition congruence. Qed.

Ltac bp := repeat (rewrite ?andb_true_iff, ?orb_true_iff, ?imp_iff, ?nz_iff, ?by_R9_iff, ?is_h_iff, ?not_calling,
  ?calling_iff, ?Z.leb_le, ?Z.ltb_lt, ?Z.eqb_eq, ?negb_true_iff, ?some_no).
Lemma R2_iff t s a : R2b t s a = true <-> R2 t s a. Proof. unfold R2b, R2. bp. tauto. Qed.
Lemma R3_iff M s a : R3b M s a = true <-> R3 M s a.
Proof. unfold R3b, R3. bp. rewrite (or_iff (chunked M) _ _ (iff_refl _)). tauto. Qed.
Lemma R4_iff s a : R4b s a = true <-> R4 s a. Proof. unfold R4b, R4. bp. tauto. Qed.
Lemma R5_pause_iff s a : R5_pauseb s a = true <-> R5_pause s a. Proof. unfold R5_pauseb, R5_pause. bp. tauto. Qed.
Lemma R8_iff M t s a : R8b M t s a = true <-> R8 M t s a.
Proof. unfold R8b, R8. bp. rewrite (or_iff (partial M) _ _ (iff_refl _)), !and_assoc. reflexivity. Qed.
Lemma R9_iff t s a : R9b t s a = true <-> R9 t s a. Proof. unfold R9b, R9. bp. tauto. Qed.
Lemma R10_iff s a : R10b s a = true <-> R10 s a. Proof. unfold R10b, R10. bp. tauto. Qed.
Lemma local_iff M t s a : localb M t s a = true <-> local M t s a.
Proof. unfold localb, local. rewrite !andb_true_iff, R2_iff, R3_iff, R4_iff, R5_pause_iff, R8_iff, R9_iff, R10_iff.
  tauto. Qed.
Lemma joint_iff M l : jointb M l = true <-> joint M l.
Proof.
  unfold jointb, fitsb, joint, R5, R6, R7, R10_batch.
    rewrite !andb_true_iff, !orb_true_iff, !within_iff, !Z.leb_le, !Z.ltb_lt.
  rewrite !or_assoc, (or_iff (hybrid M) _ _ (iff_refl _)). tauto.
Qed.
Lemma locals_iff M t ss aa : localsb M t ss aa = true <-> Forall2 (local M t) ss aa.
Proof.
  revert aa. induction ss as [|s ss IH]; intros [|a aa]; simpl.
  - split; [constructor|reflexivity].
  - split; [discriminate|inversion 1].
  - split; [discriminate|inversion 1].
  - rewrite andb_true_iff, local_iff, IH. split; [intros [? ?]; now constructor|inversion 1; tauto].
Qed.
Lemma run_iff I now ss bs zz d : runb I now ss bs = Some (zz, d) <-> run I now ss bs zz d.
Proof.
  split.
  - revert now ss zz d. induction bs as [|[t aa] bs IH]; simpl; intros now ss zz d H; [injection H as <- <-;
    constructor|].
    destruct (_ && _) eqn:E in H; [|discriminate]. rewrite !andb_true_iff, locals_iff, joint_iff, Z.leb_le in E.
    destruct (runb _ _ _ bs) as [[zz' d']|] eqn:F; [|discriminate]. injection H as <- <-. apply go; try tauto.
      now apply IH.
  - induction 1 as [|now ss t aa bs zz d T L J D R IH]; simpl; [reflexivity|]. fold D. rewrite IH.
    apply locals_iff in L. apply joint_iff in J. apply Z.leb_le in T. now rewrite T, L, J.
Qed.
Theorem referee_iff I bs g v : referee I bs g = Some v <-> valid I bs g v.
Proof.
  unfold referee, valid. split.
  - destruct (runb _ _ _ _) as [[zz d]|] eqn:E; [|discriminate]. destruct (forallb _ _) eqn:F; [|discriminate].
    intros [= <-].
    exists zz, d. split; [now apply run_iff|split; [|reflexivity]]. rewrite forallb_forall in F. apply Forall_forall.
    intros s K. apply some_iff. now apply F.
  - intros (zz & d & R & F & ->). apply run_iff in R. rewrite R. replace (forallb _ _) with true; [reflexivity|].
    symmetry.
    apply forallb_forall. intros s K. apply some_iff. rewrite Forall_forall in F. now apply F.
Qed.
Print Assumptions referee_iff.

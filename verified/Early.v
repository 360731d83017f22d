(* Batches start when something happens: when the batch before ends, or when a request that takes part becomes ready, by
   its arrival or the end of its call.

   Any run is followed batch by batch, from states of which each is no later than the run's, all moved by c ticks: the same
   acts, as early as those who were ready then allow. Nothing that a rule forbids during a call is forbidden after it, and
   what a rule orders is ordered in a batch, not at a time: so every batch obeys the rules, whatever the switches. *)
Require Import ZArith List Bool Lia Permutation Spec Referee Model Check Prices Slots.
Import ListNotations.
Open Scope Z_scope.

Definition active a := nz (work a) || nz (drop a) || nz (out a) || nz (back a).
Fixpoint moment t now ss aa {struct ss} := match ss, aa with
  | s :: ss, a :: aa => let x := moment t now ss aa in if active a && (ready s <=? t) then Z.max (ready s) x else x
  | _, _ => now end.
Definition moved s t a := active a = true /\ ready s = t.
Definition prompt_start now t ss aa := t = now \/ now < t /\ exists s a, In (s, a) (combine ss aa) /\ moved s t a.
Fixpoint prompt_starts I now ss bs {struct bs} := match bs with [] => True | Batch t aa :: bs => prompt_start now t ss aa /\
  let e := t + lasts (cost I) (total (mach I) ss aa) in prompt_starts I e (nexts (mach I) e ss aa) bs end.
Lemma moment_start t now ss aa : now <= t -> now <= moment t now ss aa <= t /\ prompt_start now (moment t now ss aa) ss aa.
Proof.
  intros T. revert aa. induction ss as [|s ss IH]; intros [|a aa]; cbn [moment combine]; try (split; [lia|now left]).
  destruct (IH aa) as [B P]. assert (prompt_start now (moment t now ss aa) (s :: ss) (a :: aa)) as K.
  { destruct P as [P|[P (s' & a' & Y & Z)]]; [now left|right]. split; [exact P|]. exists s', a'. split; [now right|exact Z]. }
  destruct (active a) eqn:A; cbn [andb]; [|now split]. destruct (Z.leb_spec (ready s) t); [|now split]. split; [lia|].
  destruct (Z.max_spec (ready s) (moment t now ss aa)) as [[_ ->]|[Q ->]]; [exact K|].
  destruct (Z.eq_dec (ready s) now) as [E|N]; [now left|right]. split; [lia|]. exists s, a. split; [now left|now split].
Qed.

Section Early.
  Variable I : instance.
  Variable o : objective.
  Variable dated : bool.  (* whether ends and arrivals count, or only whether there was an end *)
  Let M := mach I.
  Definition no_later c (x y : option Z) := some x = some y /\ (dated = true -> at_ x + if0 (some y) c <= at_ y).
  Definition as_early c z p s := State (known p) (device p) (host p) (todo p) (rest p) (ready s) (window p) (due p) (going p)
      (first s) (over s) (arrived s) (wt p) = s
    /\ ready p <= Z.max (ready s - c) z /\ no_later c (first p) (first s) /\ no_later c (over p) (over s) /\ (dated = true -> arrived p = arrived s).
  Lemma no_later_some c x y : x + c <= y -> no_later c (Some x) (Some y).
  Proof. split; [reflexivity|]. cbn. lia. Qed.
  Lemma next_early c z z' e' e p s a : e' + c <= e -> z <= z' -> as_early c z p s -> as_early c z' (next M e' p a) (next M e s a).
  Proof.
    intros H Z (<- & A & B & C & G). pose proof (no_later_some c e' e H) as N. cbn [ready first over arrived] in *. unfold as_early, next.
    repeat change (m2 (State _ _ _ _ _ _ _ _ _ _ _ _ _) a) with (m2 p a). repeat change (h2 (State _ _ _ _ _ _ _ _ _ _ _ _ _) a) with (h2 p a).
    cbn [known device host todo rest ready window due going first over arrived wt].
    assert (no_later c match first p with None => Some e' | f => f end match first s with None => Some e | f => f end)
      by (destruct (first p), (first s); try exact B; try exact N; destruct B; discriminate).
    destruct (work a =? 0); [|destruct (negb _); [|destruct (negb _); [|destruct (rest p) as [|[k d] r]]]];
      cbn [known device host todo rest ready window due going first over arrived wt]; repeat (split; [first [reflexivity|assumption|lia]|]); assumption.
  Qed.
  Lemma local_early c z t t' p s a : local M t s a -> as_early c z p s -> z <= t' ->
    (active a = true -> ready p <= t - c -> ready p <= t') -> local M t' p a.
  Proof.
    intros L (Q & R & _ & (O & _) & _) Z H. rewrite <- Q in L, O. destruct L as (A & B & C & D & E & F & G). clear Q. cbn [over] in O. match type of A with R2 _ ?x _ => set (s' := x) in * end.
    assert (active a = true -> calling t' p -> calling t s') as K.
    { intros X [Y W]. split; [exact Y|]. cbn [s' ready]. specialize (H X). lia. }
    assert (forall x, x <> 0 -> nz x = true) as N by (intros; now apply nz_iff). unfold active in *.
    split. { intros X. destruct (A X) as [Y W]. cbn [s' ready over] in Y, W. rewrite (N _ X) in H. specialize (H eq_refl).
      split; [|lia]. rewrite Y in O. now destruct (over p). }
    split; [exact B|]. split; [exact C|]. split; [exact D|]. split; [|split; [|exact G]].
    - destruct E as (E1 & E2 & E3). split; [|split; [|exact E3]]; intros X; [destruct (E1 X) as [Y|[Y W]]|destruct (E2 X) as [Y|[Y W]]];
        try (left; exact Y); (right; split; [exact Y|]; intros Q; apply W, K; [rewrite (N _ X), ?orb_true_r; reflexivity|exact Q]).
    - destruct F as [F1 F2]. split; [exact F1|]. intros Q W. destruct (Z.eq_dec (back a) 0) as [|X]; [assumption|].
      apply F2; [apply K; [rewrite (N _ X), ?orb_true_r; reflexivity|exact Q]|exact W].
  Qed.
  Lemma nexts_early c z z' e' e pp ss aa : e' + c <= e -> z <= z' -> Forall2 (as_early c z) pp ss ->
    Forall2 (as_early c z') (nexts M e' pp aa) (nexts M e ss aa).
  Proof. intros H Z F. revert aa. induction F; intros [|a aa]; cbn; constructor; [now apply (next_early c z)|apply IHF]. Qed.
  Lemma locals_early c z t now pp ss aa : now <= t - c -> z <= now -> Forall2 (as_early c z) pp ss -> Forall2 (local M t) ss aa ->
    Forall2 (local M (moment (t - c) now pp aa)) pp aa.
  Proof.
    intros T Z F. assert (forall t', z <= t' -> (forall p a, In (p, a) (combine pp aa) -> active a = true -> ready p <= t - c -> ready p <= t') ->
      Forall2 (local M t) ss aa -> Forall2 (local M t') pp aa) as X.
    { intros t' Z'. revert aa. induction F as [|p s pp ss E F IH]; intros aa H L; inversion L as [|x a y bb L1 L2]; subst; constructor.
      - apply (local_early c z t t' p s); try assumption. apply H. now left.
      - apply IH; [|assumption]. intros q b K. apply H. now right. }
    apply X; [pose proof (moment_start (t - c) now pp aa T); lia|]. clear. revert aa. induction pp as [|q pp IH]; intros [|b aa] p a K A R; try destruct K.
    - injection H as -> ->. cbn [moment]. rewrite A, (proj2 (Z.leb_le _ _) R). cbn [andb]. lia.
    - specialize (IH _ _ _ H A R). cbn [moment]. destruct (_ && _); lia.
  Qed.
  Lemma total_early c z pp ss aa : Forall2 (as_early c z) pp ss -> total M pp aa = total M ss aa.
  Proof. intros F. revert aa. induction F as [|p s pp ss [<- _] _ IH]; intros [|a aa]; cbn [total]; try reflexivity. now rewrite IH. Qed.
  Lemma rate_early c z pp ss : Forall2 (as_early c z) pp ss -> rate o pp = rate o ss.
  Proof.
    intros F. assert (existsb undone pp = existsb undone ss /\ sum (fun s => if0 (negb (some (end_of o s))) (weigh o s)) pp
      = sum (fun s => if0 (negb (some (end_of o s))) (weigh o s)) ss) as [A B]; [|unfold rate; destruct o; try reflexivity; try exact B; f_equal; exact A].
    induction F as [|p s pp ss (<- & _ & (B & _) & (C & _) & _) _ IH]; [now split|]. unfold sum in *. cbn [existsb fold_right]. destruct IH as [-> ->].
    cbn [first over] in *. unfold undone. cbn [over]. rewrite C. split; [reflexivity|]. f_equal. destruct o; cbn [end_of weigh wt over first]; now rewrite ?B, ?C.
  Qed.
  Lemma fee_early c z pp ss D : Forall2 (as_early c z) pp ss -> fee o pp D = fee o ss D.
  Proof. intros F. unfold fee. now rewrite (rate_early _ _ _ _ F). Qed.
  Lemma rate_nonneg ss : good ss -> 0 <= rate o ss.
  Proof.
    intros G. pose proof (urate_le o ss) as U. assert (0 <= sum (urate o) ss); [|lia]. clear U. unfold sum.
    induction G as [|s ss F _ IH]; cbn [fold_right]; [lia|]. pose proof (urate_nonneg o s F). lia.
  Qed.
  Lemma rate_falls t ss aa E : good ss -> Forall2 (local M t) ss aa -> 0 <= rate o (nexts M E ss aa) <= rate o ss.
  Proof.
    intros G L. assert (existsb undone (nexts M E ss aa) = true -> existsb undone ss = true) as A.
    { destruct (existsb undone ss) eqn:U; [easy|]. now rewrite (nexts_done _ _ _ _ _ L U). }
    assert (0 <= sum (fun s => if0 (negb (some (end_of o s))) (weigh o s)) (nexts M E ss aa) <= sum (fun s => if0 (negb (some (end_of o s))) (weigh o s)) ss) as B.
    { clear A. induction L as [|s a ss aa L _ IH]; [cbn; lia|]. inversion G as [|x y [W _] G2]; subst. specialize (IH G2). unfold sum in *. cbn [nexts fold_right].
      destruct (step_wt M s a E) as [W2 _]. assert (weigh o (next M E s a) = weigh o s /\ 0 <= weigh o s) as [-> WN] by (destruct o; cbn [weigh]; lia).
      assert (end_of o (next M E s a) = end_of o s \/ end_of o s = None) as [->| ->].
      { pose proof (step_over _ _ _ _ E L). pose proof (step_first M s a E). destruct o; cbn [end_of]; tauto. }
      all: destruct (end_of o _); cbn [some negb if0]; lia. }
    unfold rate. destruct o; try lia. fold undone. destruct (existsb undone (nexts M E ss aa)); [rewrite (A eq_refl)|destruct (existsb undone ss)]; cbn; lia.
  Qed.
  Lemma early_run now ss bs zz d : run I now ss bs zz d -> good ss -> forall c z pp, z + c <= now -> Forall2 (as_early c z) pp ss -> exists bs' zz',
    run I z pp bs' zz' d /\ prompt_starts I z pp bs' /\ length bs' = length bs /\ (exists z', Forall2 (as_early c z') zz' zz)
    /\ meter I o z pp bs' <= rate o ss * (now - c - z) + meter I o now ss bs.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros G c z pp H F.
    - exists [], pp. pose proof (rate_nonneg _ G). repeat split; [constructor|exists z; exact F|cbn [meter]; nia].
    - unfold R1 in T. assert (1 <= D) as D1 by apply lasts_1. set (t' := moment (t - c) z pp aa). destruct (moment_start (t - c) z pp aa ltac:(lia)) as [B P]. fold t' in B, P.
      pose proof (locals_early c z t z pp ss aa ltac:(lia) (Z.le_refl z) F L) as L'. fold t' in L'.
      pose proof (total_early _ _ _ _ aa F) as TE. unfold M in *.
      pose proof (nexts_early c z (t' + D) (t' + D) (t + D) pp ss aa ltac:(lia) ltac:(lia) F) as F'.
      destruct (IH (good_next I _ _ _ G) c (t' + D) _ ltac:(lia) F') as (bs' & zz' & R' & PS & LN & FZ & ME).
      exists (Batch t' aa :: bs'), zz'. unfold D in R'. rewrite <- TE in R'. unfold M in *. split.
      { unfold D at 1. rewrite <- TE. apply go; [unfold R1; lia|exact L'|now rewrite TE|exact R']. }
      cbn [prompt_starts]. rewrite TE. fold D. split; [now split|]. split; [cbn [length]; congruence|]. split; [exact FZ|].
      cbn [meter]. rewrite TE. fold D. rewrite (rate_early _ _ _ _ F), (fee_early _ _ _ _ D F).
      pose proof (rate_falls t ss aa (t + D) G L) as RF. unfold M in *. clear - B T RF ME H. nia.
  Qed.
End Early.

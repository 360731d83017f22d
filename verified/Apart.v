(* First tokens apart: the first piece of a job, and the others, as two jobs.

   In any run each first piece ends at some time F, and the others begin no earlier (`served_apart`). Jobs that are not
   split (`past`) have no such piece. *)
Require Import ZArith List Bool Lia Spec OneMachine.
Import ListNotations.
Open Scope Z_scope.

Definition later F p := Piece (Z.max F (from p)) (amount p) (behind p).
Definition pair_of (past : bool) F j := if past then [Job F []; Job (ends j) (map (later F) (left j))] else match left j with
  | [] => [Job F []; Job (ends j) []]
  | p :: ps => [Job F [Piece (from p) (amount p) 0]; Job (ends j) (map (later F) ps)] end.
(* `past`: the first piece is done, at F by now; else F is to come. *)
Definition dated now (past : bool) F j := if past then F <= now else match left j with [] => True | p :: _ => now <= F /\ F + behind p <= ends j end.
Definition dates := list (bool * Z).
Fixpoint pairs (ds : dates) js := match ds, js with d :: ds, j :: js => pair_of (fst d) (snd d) j ++ pairs ds js | _, _ => [] end.
Definition agrees := Forall2 (fun d d' : bool * Z => fst d = fst d' /\ (fst d = true -> snd d = snd d')).

Lemma serve_apart t D x j j' now d : serve t D x j j' -> 0 <= D -> now <= t -> (fst d = true -> snd d <= now) ->
  exists d', (fst d' = true -> snd d' <= t + D) /\ forall G, (fst d' = true -> G = snd d') -> dated (t + D) (fst d') G j' ->
    (fst d = true -> G = snd d) /\ dated now (fst d) G j /\ forall X l l', serves t D X l l' ->
    serves t D (x + X) (pair_of (fst d) G j ++ l) (pair_of (fst d') G j' ++ l').
Proof.
  intros S D0 N P. destruct d as [[|] F]; cbn [fst snd] in *.
  - specialize (P eq_refl). exists (true, F). cbn [fst snd]. split; [lia|]. intros G -> _; [|reflexivity]. split; [reflexivity|]. split; [exact P|].
    intros X l l' SS. apply (each t D 0 (x + X)); [constructor|]. apply each; [|exact SS].
    inversion S as [j0|c r w k q x0 R W E|c r w k q R W E]; subst; cbn [ends left map]; [apply nothing| |];
      [apply (part t D c (Z.max F r) w k)|apply (rest_of t D c (Z.max F r) x k)]; lia.
  - inversion S as [j0|c r w k q x0 R W E|c r w k q R W E]; subst.
    + exists (false, 0). cbn [fst snd]. split; [easy|]. intros G _ DG. split; [easy|]. split.
      { unfold dated in *. destruct (left j'); [exact DG|lia]. }
      intros X l l' SS. unfold pair_of.
      destruct (left j'); cbn [app]; (apply (each t D 0 (0 + X)); [constructor|]; apply (each t D 0 X); [constructor|exact SS]).
    + exists (false, 0). cbn [fst snd]. split; [easy|]. intros G _ DG. unfold dated in DG. cbn [left ends behind] in DG. split; [easy|].
      split; [unfold dated; cbn [left ends behind]; lia|]. intros X l l' SS. unfold pair_of. cbn [left ends from amount app].
      apply each; [constructor; lia|]. apply (each t D 0 X); [constructor|exact SS].
    + exists (true, t + D). cbn [fst snd]. split; [lia|]. intros G E2 _. rewrite (E2 eq_refl). split; [easy|].
      split; [unfold dated; cbn [left ends behind]; lia|]. intros X l l' SS. unfold pair_of. cbn [left ends from amount app].
      apply each; [constructor; lia|]. apply (each t D 0 X); [constructor|exact SS].
Qed.
Definition known now (ds : dates) := Forall (fun d => fst d = true -> snd d <= now) ds.
Definition all_dated now := Forall2 (fun (d : bool * Z) j => dated now (fst d) (snd d) j).
Lemma serves_apart t D X js js' : serves t D X js js' -> 0 <= D -> forall now ds, now <= t -> length ds = length js -> known now ds ->
  exists ds', length ds' = length js' /\ known (t + D) ds' /\ forall gs, agrees gs ds' -> all_dated (t + D) gs js' ->
    exists hs, agrees hs ds /\ all_dated now hs js /\ serves t D X (pairs hs js) (pairs gs js').
Proof.
  induction 1 as [|x X j j' js js' S SS IH]; intros D0 now ds N L K; destruct ds as [|d ds]; try discriminate.
  - exists []. split; [reflexivity|]. split; [constructor|]. intros gs A _. inversion A. subst. exists []. repeat constructor.
  - inversion K as [|a b K1 K2]. subst. cbn [length] in L. destruct (IH D0 now ds N ltac:(lia) K2) as (ds' & L' & K' & H).
    destruct (serve_apart t D x j j' now d S D0 N K1) as (d' & P & Q). exists (d' :: ds'). split; [cbn [length]; lia|]. split; [now constructor|].
    intros gs A B. inversion A as [|g d2 gs2 ds2 [A1 A2] A3]. subst. inversion B as [|g2 j2 gs3 js2 B1 B2]. subst.
    destruct (H gs2 A3 B2) as (hs & H1 & H2 & H3). rewrite A1 in A2, B1. destruct (Q (snd g) A2 B1) as (Q1 & Q2 & Q3).
    exists ((fst d, snd g) :: hs). split; [constructor; [split; [reflexivity|exact Q1]|exact H1]|]. split; [constructor; [exact Q2|exact H2]|].
    cbn [pairs fst snd]. rewrite A1. now apply Q3.
Qed.
Theorem served_apart least gap now js : served least gap now js -> forall ds, length ds = length js -> known now ds ->
  exists gs, agrees gs ds /\ all_dated now gs js /\ served least gap now (pairs gs js).
Proof.
  induction 1 as [now js F|now t D X js js' N D0 S B L R IH]; intros ds LN K.
  - exists ds. split; [clear; induction ds; constructor; auto|]. enough (all_dated now ds js /\ Forall (fun j => left j = []) (pairs ds js)) as [A B]
      by (split; [exact A|now constructor]). revert ds LN K. induction F as [|j js E _ IH]; intros [|d ds] LN K; try discriminate.
    + split; constructor.
    + inversion K as [|a b K1 K2]. subst. cbn [length] in LN. destruct (IH ds ltac:(lia) K2) as [A B]. split.
      * constructor; [|exact A]. unfold dated. rewrite E. destruct (fst d); [now apply K1|exact Logic.I].
      * cbn [pairs]. unfold pair_of. rewrite E. destruct (fst d); cbn [app map]; repeat constructor; exact B.
  - destruct (serves_apart t D X js js' S D0 now ds N LN K) as (ds' & L' & K' & H). destruct (IH ds' L' K') as (gs & A & C & E).
    destruct (H gs A C) as (hs & H1 & H2 & H3). exists hs. split; [exact H1|]. split; [exact H2|]. now apply (later_on _ _ _ t D X _ (pairs gs js')).
Qed.

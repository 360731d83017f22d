(* Graphs of requests, if every batch lasts one tick, and closed sets of their joint states, tick by tick.

   A node of the graph stands for states of one request: what a request may do in such a state, an edge of the node
   answers, which takes no more of what is limited and leads to a node that stands for what follows (`stands`). Nodes that
   are as good as another one stand for its states, too (`better`). With prices of slots a node is worth what it costs at
   the least to its end (`layers_of`, by recursion from the last slot), and a joint state the sum, less the price of all
   limits to come (`sound`). Each layer of a closed set has joint states with their costs so far; whatever happens in a
   tick leads to one that the next layer has at no higher cost, or that is worth enough for the target. *)
Require Import ZArith List Bool Lia Permutation Spec Referee Model Check Prices.
Import ListNotations.
Open Scope Z_scope.

(* --- Trees, in any order: what is found is in them ------------------------------------------------------------ *)
Inductive search_tree A := Tip | Fork (low : search_tree A) (key : nat) (item : A) (high : search_tree A).
Arguments Tip {A}. Arguments Fork {A}.
Fixpoint seek {A} n (t : search_tree A) := match t with Tip => None | Fork l k x h =>
  if Nat.eqb n k then Some x else if Nat.ltb n k then seek n l else seek n h end.
Fixpoint each_of {A B} (f : A -> B) t := match t with Tip => Tip | Fork l k x h => Fork (each_of f l) k (f x) (each_of f h) end.
Fixpoint items {A} (t : search_tree A) more := match t with Tip => more | Fork l _ x h => items l (x :: items h more) end.
Lemma seek_each {A B} (f : A -> B) n t : seek n (each_of f t) = option_map f (seek n t).
Proof. induction t as [|l IL k x h IH]; cbn [seek each_of]; [reflexivity|]. destruct (Nat.eqb n k); [reflexivity|].
  destruct (Nat.ltb n k); assumption. Qed.
Lemma items_each {A B} (f : A -> B) t : forall more, items (each_of f t) (map f more) = map f (items t more).
Proof. induction t as [|l IL k x h IH]; cbn; intros more; [reflexivity|]. rewrite IH. exact (IL (x :: items h more)). Qed.
Lemma items_more {A} (t : search_tree A) : forall more x, In x more -> In x (items t more).
Proof. induction t as [|l IL k y h IH]; cbn; [easy|]. intros more x H. apply IL. right. now apply IH. Qed.
Lemma seek_in {A} n (t : search_tree A) x : seek n t = Some x -> forall more, In x (items t more).
Proof.
  induction t as [|l IL k y h IH]; cbn [seek items]; [easy|]. destruct (Nat.eqb n k); [intros [= <-] more; apply items_more; now left|].
  destruct (Nat.ltb n k); intros H more; [now apply IL|]. apply items_more. right. now apply IH.
Qed.

Record node := Node { idle : nat; ended : bool; rated : Z; hold : load; edges : list (nat * load); better : search_tree nat;
  kinds : list nat }.  (* the requests that may come to it *)
Definition far := 2 ^ 50.
Fixpoint minus (xs ys : list Z) := match xs, ys with x :: xs, y :: ys => x - y :: minus xs ys | _, _ => [] end.
Lemma minus_map {A} (f g : A -> Z) l : minus (map f l) (map g l) = map (fun x => f x - g x) l.
Proof. induction l as [|x l IH]; cbn; [reflexivity|now rewrite IH]. Qed.
Fixpoint minimum (xs ys : list Z) :=
  match xs, ys with x :: xs, y :: ys => Z.min x y :: minimum xs ys | _, _ => [] end.
Lemma minimum_map {A} (f g : A -> Z) l : minimum (map f l) (map g l) = map (fun x => Z.min (f x) (g x)) l.
Proof. induction l as [|x l IH]; cbn; [reflexivity|now rewrite IH]. Qed.
Fixpoint place_in n ns := match ns with [] => [n] | x :: xs => if Nat.leb n x then n :: ns else x :: place_in n xs end.
Definition arrange ns := fold_left (fun l n => place_in n l) ns [].
Lemma place_perm n ns : Permutation (place_in n ns) (n :: ns).
Proof. induction ns as [|x ns IH]; cbn; [reflexivity|]. destruct (Nat.leb n x); [reflexivity|]. rewrite IH. apply perm_swap. Qed.
Lemma arrange_perm ns : Permutation (arrange ns) ns.
Proof.
  unfold arrange. rewrite <- (app_nil_r ns) at 2. generalize (@nil nat). induction ns as [|x ns IH]; intros l; cbn [fold_left app]; [reflexivity|].
  rewrite IH, place_perm. symmetry. apply Permutation_middle.
Qed.

Section Slots.
  Variable I : instance.
  Variable o : objective.
  Variable scale target : Z.
  Variable strict : bool.  (* whether a batch must have work or a transfer *)
  Variable nodes : search_tree node.
  Variable names : search_tree (list (state * nat)).  (* which node stands for a state *)
  Variable hash : state -> nat.  (* any functions: they steer what is found, not what is proved *)
  Variable hashes : list nat -> nat.
  Variable deadlines : option (list Z).  (* of kinds of requests: no schedule below the target ends one of them later *)
  Let M := mach I.

  (* --- The graph ---------------------------------------------------------------------------------------------- *)
  Definition dead := Node 0 false 0 none [] Tip [].
  Definition at_node n := match seek n nodes with Some x => x | None => dead end.
  Definition name s := match seek (hash s) names with None => None | Some l =>
    option_map snd (find (fun p => state_eqb (fst p) s) l) end.
  Definition as_good n n' := Nat.eqb n n' || match seek n (better (at_node n')) with Some m => Nat.eqb n m | None => false end.
  Definition for_state n s := match name s with None => false | Some n' => as_good n n' end.
  Definition act_of l := ndec l + npre l + (nout l + nin l).
  Definition mostb l l' := (tok l <=? tok l') && (ptok l <=? ptok l') && (ndec l + npre l <=? ndec l' + npre l')
    && (blk l <=? blk l') && (hos l <=? hos l').
  Definition answers e l := mostb e l && (hybrid M || (ndec e <=? ndec l) && (npre e <=? npre l))
    && (negb strict || (act_of l <=? act_of e)).
  Definition rests x := (idle x, hold x) :: edges x.
  Definition subset (xs ys : list nat) := forallb (fun x => existsb (Nat.eqb x) ys) xs.
  (* Whether y is as good as x, if the nodes that are said to be so are. *)
  Definition simulates (good : nat -> nat -> bool) x y := imp (ended x) (ended y) && (rated y <=? rated x) && good (idle y) (idle x)
    && existsb (fun r => mostb (snd r) (hold x) && good (fst r) (idle x)) (rests y)
    && forallb (fun e => existsb (fun e' => answers (snd e') (snd e) && good (fst e') (fst e)) (edges y)) (edges x).
  Definition node_ok x := (0 <=? rated x) && forallb (mostb none) (hold x :: map snd (edges x))
    && forallb (fun n => subset (kinds x) (kinds (at_node n))) (idle x :: map fst (edges x) ++ items (better x) [])
    && (negb (ended x) || forallb (fun n => ended (at_node n)) (idle x :: map fst (edges x)))
    && forallb (fun n => simulates as_good x (at_node n)) (items (better x) []).
  Definition name_ok p := let s := fst p in let x := at_node (snd p) in
    imp (some (over s)) (ended x) && (rated x <=? urate o s) && for_state (idle x) (norm true 1 s)
    && existsb (fun r => mostb (snd r) (held M s) && for_state (fst r) (norm true 1 s)) (rests x)
    && forallb (fun al => let s' := norm true 1 (next M 1 s (fst al)) in
         existsb (fun e => answers (snd e) (snd al) && for_state (fst e) s') (edges x)) (opts M s).
  Inductive stands : state -> nat -> Prop :=
  | by_name s n : name s = Some n -> stands s n
  | as_better s n n' : stands s n -> In n' (items (better (at_node n)) []) -> stands s n'.

  Hypothesis block_ok : 0 < block M.
  Hypothesis scale_ok : 0 <= scale.
  Hypothesis is_steady : steady I o = true.
  Hypothesis nodes_ok : forallb node_ok (items nodes []) = true.
  Hypothesis names_ok : forallb (forallb name_ok) (items names []) = true.

  Lemma mostb_iff l l' : mostb l l' = true <-> most l l'.
  Proof. unfold mostb, most. rewrite !andb_true_iff, !Z.leb_le. tauto. Qed.
  Lemma at_node_ok n : node_ok (at_node n) = true.
  Proof.
    unfold at_node. destruct (seek n nodes) as [x|] eqn:E; [|reflexivity]. rewrite forallb_forall in nodes_ok.
    apply nodes_ok. eapply seek_in; eauto.
  Qed.
  Lemma named_ok s n : name s = Some n -> name_ok (s, n) = true.
  Proof.
    unfold name. destruct (seek (hash s) names) as [l|] eqn:E; [|easy]. destruct (find _ l) as [[s' n']|] eqn:F; [|easy].
    intros [= <-]. apply find_some in F. destruct F as [A B]. cbn [fst] in B. apply state_eqb_eq in B as ->.
    rewrite forallb_forall in names_ok. specialize (names_ok l (seek_in _ _ _ E [])). rewrite forallb_forall in names_ok.
    exact (names_ok _ A).
  Qed.
  Lemma as_good_in n n' : as_good n n' = true -> n = n' \/ In n (items (better (at_node n')) []).
  Proof.
    unfold as_good. rewrite orb_true_iff, Nat.eqb_eq. intros [A|A]; [now left|right]. destruct (seek n _) as [m|] eqn:E; [|discriminate].
    apply Nat.eqb_eq in A as <-. exact (seek_in _ _ _ E []).
  Qed.
  Lemma as_good_stands s n n' : as_good n' n = true -> stands s n -> stands s n'.
  Proof.
    intros [->|H]%as_good_in S; [exact S|]. eapply as_better; eauto.
  Qed.
  Lemma for_state_stands n s : for_state n s = true -> stands s n.
  Proof.
    unfold for_state. destruct (name s) as [n'|] eqn:E; [|easy]. intros H. eapply as_good_stands; [exact H|]. now apply by_name.
  Qed.
  Definition Answers e l := most e l /\ (hybrid M = false -> ndec e <= ndec l /\ npre e <= npre l)
    /\ (strict = true -> act_of l <= act_of e).
  Lemma answers_iff e l : answers e l = true <-> Answers e l.
  Proof.
    unfold answers, Answers. rewrite !andb_true_iff, mostb_iff, !orb_true_iff, andb_true_iff, !Z.leb_le, negb_true_iff.
    destruct (hybrid M), strict; intuition congruence.
  Qed.
  Lemma answers_trans x y z : Answers x y -> Answers y z -> Answers x z.
  Proof. unfold Answers, most. intuition lia. Qed.
  Lemma most_trans x y z : most x y -> most y z -> most x z.
  Proof. unfold most. lia. Qed.

  (* What a node promises of each state that it stands for. *)
  Lemma stands_facts s n : stands s n -> (some (over s) = true -> ended (at_node n) = true)
    /\ rated (at_node n) <= urate o s /\ stands (norm true 1 s) (idle (at_node n))
    /\ (exists r, In r (rests (at_node n)) /\ most (snd r) (held M s) /\ stands (norm true 1 s) (fst r))
    /\ forall a, local M 0 s a -> fitsb M (load_of M s a) = true -> exists e, In e (edges (at_node n))
       /\ Answers (snd e) (load_of M s a) /\ stands (norm true 1 (next M 1 s a)) (fst e).
  Proof.
    induction 1 as [s n H|s n n' H (A & B & C & D & E) K].
    - apply named_ok in H. unfold name_ok in H. cbn [fst snd] in H. rewrite !andb_true_iff, Z.leb_le in H.
      destruct H as [[[[A B] D] C] E].
      split; [intros X; rewrite X in A; exact A|]. split; [exact B|]. split; [now apply for_state_stands|]. split.
      { apply existsb_exists in C. destruct C as (r & C1 & C2). apply andb_true_iff in C2. destruct C2 as [C2 C3].
        exists r. split; [exact C1|]. split; [now apply mostb_iff|now apply for_state_stands]. }
      intros a L F. rewrite forallb_forall in E. specialize (E _ (in_opts M (local_iff M) _ _ L F)). cbn [fst snd] in E.
        apply existsb_exists in E. destruct E as (e & X & Y). apply andb_true_iff in Y. destruct Y as [Y Z]. exists e.
        split; [exact X|]. split; [now apply answers_iff|now apply for_state_stands].
    - pose proof (at_node_ok n) as X. unfold node_ok in X. rewrite !andb_true_iff in X. destruct X as [_ X].
      rewrite forallb_forall in X. specialize (X n' K). unfold simulates in X. rewrite !andb_true_iff, Z.leb_le in X.
      destruct X as [[[[X1 X2] X3] X4] X5].
      split; [intros Y; rewrite (A Y) in X1; exact X1|]. split; [lia|]. split; [eapply as_good_stands; eauto|].
      rewrite forallb_forall in X5. split.
      { destruct D as (r & [<-|R1] & R2 & R3).
        - apply existsb_exists in X4. destruct X4 as (r & R4 & R5). apply andb_true_iff in R5. destruct R5 as [R5 R6].
          apply mostb_iff in R5. exists r. split; [exact R4|]. split; [eapply most_trans; eauto|eapply as_good_stands; eauto].
        - specialize (X5 r R1). apply existsb_exists in X5. destruct X5 as (r' & R4 & R5). apply andb_true_iff in R5. destruct R5 as [R5 R6].
          apply answers_iff in R5. exists r'. split; [now right|]. split; [eapply most_trans; [apply R5|exact R2]|eapply as_good_stands; eauto]. }
      intros a L F. destruct (E a L F) as (e & P & Q & R). specialize (X5 e P).
        apply existsb_exists in X5. destruct X5 as (f & Y & Z). apply andb_true_iff in Z. destruct Z as [Z1 Z2]. exists f.
        split; [exact Y|]. apply answers_iff in Z1. split; [eapply answers_trans; eauto|eapply as_good_stands; eauto].
  Qed.
  Lemma node_facts n : 0 <= rated (at_node n) /\ most none (hold (at_node n))
    /\ (forall e, In e (edges (at_node n)) -> most none (snd e))
    /\ (ended (at_node n) = true -> ended (at_node (idle (at_node n))) = true
        /\ forall e, In e (edges (at_node n)) -> ended (at_node (fst e)) = true).
  Proof.
    pose proof (at_node_ok n) as X. unfold node_ok in X. cbn [forallb] in X.
    rewrite !andb_true_iff, !orb_true_iff, negb_true_iff, mostb_iff, Z.leb_le, !forallb_forall, !andb_true_iff in X.
    destruct X as [[[[A [B C]] _] D] _].
    split; [exact A|]. split; [exact B|]. split; [intros e E; apply mostb_iff, C, in_map, E|].
    intros X. destruct D as [D|[D K]]; [congruence|]. split; [exact D|]. rewrite forallb_forall in K. intros e E. apply (K _ (in_map _ _ _ E)).
  Qed.

  (* --- A batch is answered ------------------------------------------------------------------------------------ *)
  Definition edge_of n e := In e (edges (at_node n)).
  Definition taken (ee : list (nat * load)) := fold_right (fun e l => plus (snd e) l) none ee.
  Definition holds nn := fold_right (fun n l => plus (hold (at_node n)) l) none nn.
  Lemma answers_plus x y x' y' : Answers x x' -> Answers y y' -> Answers (plus x y) (plus x' y').
  Proof. unfold Answers, most, act_of. cbn [plus tok ptok ndec npre blk hos nout nin]. intuition lia. Qed.
  Lemma batch_answered ss aa : Forall2 (local M 0) ss aa -> forall nn, Forall2 stands ss nn -> fitsb M (total M ss aa) = true ->
    exists ee, Forall2 edge_of nn ee /\ Answers (taken ee) (total M ss aa)
      /\ Forall2 stands (map (norm true 1) (nexts M 1 ss aa)) (map fst ee).
  Proof.
    induction 1 as [|s a ss aa L LL IH]; intros nn S F; inversion S as [|x n y nn' S1 S2]; subst.
    - exists []. repeat split; try constructor; cbn; try lia; unfold act_of; cbn; lia.
    - cbn [total] in F. pose proof (load_nonneg _ _ _ _ block_ok L). pose proof (total_nonneg _ _ _ _ block_ok LL).
      assert (fitsb M (load_of M s a) = true) as F1 by (eapply fits_most; [|exact F]; now apply most_none_r).
      assert (fitsb M (total M ss aa) = true) as F2 by (eapply fits_most; [|exact F]; now apply most_none_l).
      destruct (IH _ S2 F2) as (ee & A & B & C). destruct (stands_facts _ _ S1) as (_ & _ & _ & _ & E).
      destruct (E a L F1) as (e & P & Q & R). exists (e :: ee).
      split; [now constructor|]. split; [now apply answers_plus|]. cbn. now constructor.
  Qed.
  Definition usable l := fitsb M l && (hybrid M || (ndec l <=? 0) || (npre l <=? 0)) && (negb strict || (0 <? act_of l)).
  Lemma moves_nonneg ss aa : 0 <= nout (total M ss aa) + nin (total M ss aa).
  Proof.
    revert aa. induction ss as [|s ss IH]; intros [|a aa]; cbn [total none plus nout nin]; try lia. specialize (IH aa).
    cbn [load_of nout nin]. destruct (negb (out a =? 0)), (negb (back a =? 0)); cbn [b2z]; lia.
  Qed.
  Lemma usable_sound u t ss aa : Forall2 (local M t) ss aa -> joint M (total M ss aa) -> Answers u (total M ss aa) ->
    usable u = true.
  Proof.
    intros L J (A & B & C). pose proof (total_nonneg _ _ _ _ block_ok L) as (_ & _ & N & _). cbn in N.
    pose proof (moves_nonneg ss aa) as N2. apply joint_iff in J. unfold jointb in J.
    rewrite !andb_true_iff, !orb_true_iff, !Z.leb_le, !Z.ltb_lt in J. destruct J as [[J1 J2] J3]. unfold usable.
    rewrite !andb_true_iff, !orb_true_iff, !Z.leb_le, Z.ltb_lt, negb_true_iff. repeat split.
    - eapply fits_most; eauto.
    - destruct (hybrid M); [tauto|]. destruct (B eq_refl). intuition lia.
    - destruct strict; [right|now left]. specialize (C eq_refl). unfold act_of in C at 1. lia.
  Qed.

  (* --- Deadlines ---------------------------------------------------------------------------------------------- *)
  Definition latest l x := fold_right (fun k d => Z.max (nth k l far) d) 0 (kinds x).
  Definition overdue k x := match deadlines with None => false | Some l => (0 <? rated x) && (latest l x <=? k) end.
  Definition timely z n := forall l, deadlines = Some l -> exists c, end_of o z = Some c /\ c <= latest l (at_node n).
  Lemma latest_le l x y : subset (kinds x) (kinds y) = true -> latest l x <= latest l y.
  Proof.
    unfold subset, latest. rewrite forallb_forall. generalize (kinds x) (kinds y). intros xs ys H.
    assert (forall ks, 0 <= fold_right (fun k d => Z.max (nth k l far) d) 0 ks) as N by (intros ks; induction ks; cbn [fold_right]; lia).
    induction xs as [|k xs IH]; cbn [fold_right]; [apply N|]. specialize (IH (fun a A => H a (or_intror A))).
    specialize (H k (or_introl eq_refl)). apply existsb_exists in H. destruct H as (k' & K & E). apply Nat.eqb_eq in E as <-.
    assert (nth k l far <= fold_right (fun k d => Z.max (nth k l far) d) 0 ys); [|lia]. clear - K.
    induction ys as [|y ys IY]; [destruct K|]. cbn [fold_right]. destruct K as [->|K]; [lia|]. specialize (IY K). lia.
  Qed.
  Lemma timely_on z n m : In m (idle (at_node n) :: map fst (edges (at_node n)) ++ items (better (at_node n)) []) -> timely z n -> timely z m.
  Proof.
    intros K H l L. destruct (H l L) as (c & A & B). exists c. split; [exact A|]. etransitivity; [exact B|]. apply latest_le.
    pose proof (at_node_ok n) as X. unfold node_ok in X. rewrite !andb_true_iff in X. destruct X as [[[_ X] _] _].
    rewrite forallb_forall in X. now apply X.
  Qed.
  (* At a tick, what is known of the end of a request, and what its ticks until then cost. *)
  Definition ends k s z := match end_of o s with Some x => end_of o z = Some x | None => forall x, end_of o z = Some x -> k < x end.
  Definition owed k s z := match o with
    | Flow | Weighted | Ttft => match end_of o s with None => weigh o s * (at_ (end_of o z) - k) | _ => 0 end
    | _ => 0 end.
  Lemma end_step t s a E : local M t s a -> weigh o (next M E s a) = weigh o s /\
    (end_of o (next M E s a) = end_of o s \/ end_of o s = None /\ end_of o (next M E s a) = Some E).
  Proof.
    intros L. pose proof (step_over _ _ _ _ E L). pose proof (step_first M s a E). destruct (step_wt M s a E) as [W _].
    destruct o; cbn [weigh end_of]; tauto.
  Qed.
  Lemma ends_step now t E s a z : local M t s a -> now < E -> ends E (next M E s a) z ->
    ends now s z /\ owed now s z = urate o s * (E - now) + owed E (next M E s a) z.
  Proof.
    intros L N. destruct (end_step t s a E L) as (W & [X|[X Y]]); unfold ends, owed, urate; rewrite ?X, ?Y, ?W; intros H.
    - split; [destruct (end_of o s); [exact H|]; intros x K; specialize (H x K); lia|].
      destruct o; cbn [if0 some negb]; try lia; destruct (end_of _ s); cbn [some negb if0]; lia.
    - split; [intros x K; rewrite K in H; injection H; lia|]. rewrite H. destruct o; cbn [if0 some negb at_]; lia.
  Qed.
  Lemma ends_wait k s z : ends (k + 1) s z -> ends k s z /\ owed k s z = urate o s + owed (k + 1) s z.
  Proof.
    unfold ends, owed, urate. intros H. split; [destruct (end_of o s); [exact H|]; intros x K; specialize (H x K); lia|].
    destruct o; cbn [if0 some negb]; try lia; destruct (end_of _ s); cbn [some negb if0]; lia.
  Qed.
  Lemma ends_all now t E ss aa : Forall2 (local M t) ss aa -> now < E -> forall zz, Forall2 (ends E) (nexts M E ss aa) zz -> Forall2 (ends now) ss zz.
  Proof.
    induction 1 as [|s a ss aa L _ IL]; intros N zz F; inversion F; subst; constructor; [|now apply IL].
    match goal with X : ends E _ ?z |- _ => destruct (ends_step now t E s a z L N X); assumption end.
  Qed.
  Lemma run_ends now ss bs zz d : run I now ss bs zz d -> Forall2 (ends now) ss zz.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH].
    - induction ss as [|s ss IH]; constructor; [|exact IH]. unfold ends. destruct (end_of o s); congruence.
    - unfold R1 in T. refine (ends_all now t (t + D) ss aa L _ zz IH). pose proof (lasts_1 (cost I) (total (mach I) ss aa)). unfold D. lia.
  Qed.

  (* --- What prices of slots are worth ------------------------------------------------------------------------- *)
  Definition pot := (search_tree Z * Z)%type.
  Definition val (p : pot) n := match seek n (fst p) with Some v => v | None => 0 end.
  Definition value_at k r (p : pot) x := if ended x then 0 else if overdue k x then far else Z.min far (scale * rated x +
    fold_right (fun e m => Z.min (pay r (snd e) + val p (fst e)) m) (pay r (hold x) + val p (idle x)) (edges x)).
  Definition step := (row * pot)%type.  (* the prices of the slot before a tick, and values at the tick *)
  Definition off : step := (zero, (Tip, 0)).
  Fixpoint layers_of k before rows : list step := match rows with [] => [(before, snd off)] | r :: rows =>
    let more := layers_of (k + 1) r rows in let p := snd (hd off more) in
    (before, (each_of (value_at k r p) nodes, supply M r + snd p)) :: more end.
  (* Of some requests, each with its node: a sum of values; and what their ticks to come cost. *)
  Definition worth p (oo : list (option nat)) := fold_right (fun q x => match q with Some n => val p n + x | None => x end) 0 oo.
  Fixpoint owing k (oo : list (option nat)) ss zz := match oo, ss, zz with
    | q :: oo, s :: ss, z :: zz => (if some q then owed k s z else 0) + owing k oo ss zz | _, _, _ => 0 end.
  Definition tracked s q := match q with Some n => stands s n | None => True end.
  Definition punctual z q := match q with Some n => timely z n | None => True end.
  Definition sound k (p : pot) := forall ss oo bs zz d, run I k ss bs zz d -> Forall R11 zz -> good ss -> room I ss ->
    Forall2 tracked (map (norm true k) ss) oo -> Forall2 punctual zz oo -> worth p oo - snd p <= scale * owing k oo ss zz.
  Lemma val_layer k r p n w : val (each_of (value_at k r p) nodes, w) n = match seek n nodes with
    | Some x => value_at k r p x | None => 0 end.
  Proof. unfold val. cbn [fst]. rewrite seek_each. now destruct (seek n nodes). Qed.
  Lemma layers_facts rows : forallb (row_ok M) rows = true -> forall k before n, let p := snd (hd off (layers_of k before rows)) in
    0 <= val p n /\ (ended (at_node n) = true -> val p n = 0).
  Proof.
    induction rows as [|r rows IH]; cbn [layers_of hd forallb snd off]; intros H k before n; [split; [unfold val; cbn; lia|reflexivity]|].
    apply andb_true_iff in H. destruct H as [R H]. specialize (IH H (k + 1) r). cbv zeta. rewrite val_layer. set (p := snd (hd off _)) in *.
    destruct (node_facts n) as (A & B & C & _). unfold at_node in *. destruct (seek n nodes) as [x|]; [|split; [lia|easy]].
    unfold value_at. split; [|intros ->; reflexivity]. destruct (ended x); [lia|]. destruct (overdue k x); [unfold far; lia|].
    assert (0 <= fold_right (fun e m => Z.min (pay r (snd e) + val p (fst e)) m) (pay r (hold x) + val p (idle x)) (edges x)); [|unfold far; nia].
    induction (edges x) as [|e es IE]; cbn [fold_right].
    - pose proof (pay_nonneg I r (hold x) R B). destruct (IH (idle x)). lia.
    - pose proof (pay_nonneg I r (snd e) R (C e (or_introl eq_refl))). destruct (IH (fst e)).
      specialize (IE (fun e K => C e (or_intror K))). lia.
  Qed.
  Lemma worth_steps k before rows r n : forallb (row_ok M) (r :: rows) = true -> overdue k (at_node n) = false ->
    let p := snd (hd off (layers_of k before (r :: rows))) in let p' := snd (hd off (layers_of (k + 1) r rows)) in
    val p n <= scale * rated (at_node n) + pay r (hold (at_node n)) + val p' (idle (at_node n))
    /\ forall e, edge_of n e -> val p n <= scale * rated (at_node n) + pay r (snd e) + val p' (fst e).
  Proof.
    cbn [layers_of hd forallb snd]. rewrite andb_true_iff. intros [R H] OD. rewrite val_layer. pose proof (layers_facts rows H (k + 1) r) as V.
    set (p := snd (hd off _)) in *. destruct (node_facts n) as (A & B & C & D). unfold edge_of, at_node in *.
    pose proof (pay_nonneg I r _ R B) as Y1. destruct (seek n nodes) as [x|]; [|cbn in *; destruct (V 0%nat); split; [nia|intros e []]].
    unfold value_at. rewrite OD. destruct (ended x).
    - split; [destruct (V (idle x)); nia|]. intros e E. pose proof (pay_nonneg I r _ R (C e E)). destruct (V (fst e)). nia.
    - clear - A. induction (edges x) as [|f es [I1 I2]]; cbn [fold_right]; [split; [lia|intros e []]|]. split; [lia|].
      intros e [->|E]; [lia|]. specialize (I2 e E). lia.
  Qed.
  Lemma on_time k s z n : stands (norm true k s) n -> timely z n -> ends k s z -> overdue k (at_node n) = false.
  Proof.
    intros S T E. apply not_true_iff_false. unfold overdue. destruct deadlines as [l|] eqn:X; [|easy].
    rewrite andb_true_iff, Z.ltb_lt, Z.leb_le. intros [A B]. destruct (T l X) as (c & C1 & C2).
    destruct (stands_facts _ _ S) as (_ & U & _). unfold ends in E.
    assert (end_of o s = None) as N; [|rewrite N in E; specialize (E c C1); lia].
    unfold urate in U. destruct o; cbn [end_of norm first over] in *; try lia;
      match goal with U : _ <= if0 (negb (some (mark ?x))) _ |- _ => destruct x; [cbn in U; lia|reflexivity] end.
  Qed.
  Lemma urate_norm k s : urate o (norm true k s) = urate o s.
  Proof. unfold urate. destruct o; try reflexivity; cbn [end_of norm first over weigh wt]; now rewrite mark_some. Qed.
  Section Step.
    Variable r : row.
    Variable p p' : pot.
    Variable k : Z.
    Hypothesis falls : forall n, overdue k (at_node n) = false ->
      val p n <= scale * rated (at_node n) + pay r (hold (at_node n)) + val p' (idle (at_node n))
      /\ forall e, edge_of n e -> val p n <= scale * rated (at_node n) + pay r (snd e) + val p' (fst e).
    Definition stepped ss' zz oo ss l := exists oo', Forall2 tracked (map (norm true (k + 1)) ss') oo' /\ Forall2 punctual zz oo'
      /\ exists l', most l' l /\ worth p oo <= pay r l' + worth p' oo' + scale * (owing k oo ss zz - owing (k + 1) oo' ss' zz).
    Lemma add_step s s' z q ss ss' zz oo l l1 l2 : most l1 l2 -> (forall n, q = Some n -> stands (norm true k s) n /\ timely z n) ->
      (forall n, q = Some n -> exists n', stands (norm true (k + 1) s') n' /\ timely z n'
        /\ val p n <= scale * rated (at_node n) + pay r l1 + val p' n') ->
      most none l2 -> owed k s z = urate o s + owed (k + 1) s' z -> stepped ss' zz oo ss l ->
      stepped (s' :: ss') (z :: zz) (q :: oo) (s :: ss) (plus l2 l).
    Proof.
      intros M1 S H N O (oo' & A & B & l' & C & D). destruct q as [n|].
      - destruct (H n eq_refl) as (n' & X & Y & Z). exists (Some n' :: oo'). split; [now constructor|]. split; [now constructor|].
        exists (plus l1 l'). split; [now apply most_plus|]. rewrite pay_plus. cbn [worth fold_right owing some]. fold (worth p oo) (worth p' oo').
        destruct (S n eq_refl) as [S1 _]. destruct (stands_facts _ _ S1) as (_ & U & _). rewrite urate_norm in U. nia.
      - exists (None :: oo'). split; [now constructor|]. split; [now constructor|]. exists l'. split; [eapply most_trans; [exact C|now apply most_none_l]|].
        cbn [worth fold_right owing some]. fold (worth p oo) (worth p' oo'). lia.
    Qed.
    Lemma none_stepped : stepped [] [] [] [] none.
    Proof. exists []. split; [constructor|]. split; [constructor|]. exists none. split; [apply most_refl|]. cbn. unfold pay. cbn. lia. Qed.
    Lemma batch_tracked ss aa : Forall2 (local M k) ss aa -> forall zz oo, Forall2 (ends (k + 1)) (nexts M (k + 1) ss aa) zz ->
      Forall2 tracked (map (norm true k) ss) oo -> Forall2 punctual zz oo -> fitsb M (total M ss aa) = true ->
      stepped (nexts M (k + 1) ss aa) zz oo ss (total M ss aa).
    Proof.
      induction 1 as [|s a ss aa L LL IH]; intros zz oo E S P F; inversion S as [|x q y oo' S1 S2]; subst; inversion E; subst.
      - apply none_stepped.
      - inversion P; subst. cbn [total nexts] in *. pose proof (load_nonneg _ _ _ _ block_ok L). pose proof (total_nonneg _ _ _ _ block_ok LL).
        assert (fitsb M (load_of M s a) = true) as F1 by (eapply fits_most; [|exact F]; now apply most_none_r).
        assert (fitsb M (total M ss aa) = true) as F2 by (eapply fits_most; [|exact F]; now apply most_none_l).
        match goal with X : ends _ (next _ _ _ _) ?z |- _ => destruct (ends_step k k (k + 1) s a z L ltac:(lia) X) as [EN OW] end.
        assert (forall n, q = Some n -> exists e, edge_of n e /\ Answers (snd e) (load_of M s a)
          /\ stands (norm true (k + 1) (next M (k + 1) s a)) (fst e)) as G.
        { intros n ->. destruct (stands_facts _ _ S1) as (_ & _ & _ & _ & G).
          destruct (G a (local_norm true _ _ _ _ L) F1) as (e & G1 & G2 & G3). exists e. rewrite norm_next by lia. exact (conj G1 (conj G2 G3)). }
        destruct q as [n|].
        + destruct (G n eq_refl) as (e & G1 & G2 & G3). eapply (add_step _ _ _ _ _ _ _ _ _ (snd e)); [apply G2| | |assumption|lia|now apply IH].
          * intros m [= <-]. now split.
          * intros m [= <-]. exists (fst e). split; [exact G3|]. split; [eapply timely_on; [|eassumption]; right; apply in_or_app; left; now apply in_map|].
            apply falls; [eapply on_time; eauto|exact G1].
        + eapply (add_step _ _ _ _ _ _ _ _ _ none); [eassumption|intros m [=]|intros m [=]|assumption|lia|now apply IH].
    Qed.
    Lemma idle_tracked ss : forall zz oo, Forall2 (ends (k + 1)) ss zz -> Forall2 tracked (map (norm true k) ss) oo -> Forall2 punctual zz oo ->
      stepped ss zz oo ss (all_held M (map (norm true k) ss)).
    Proof.
      induction ss as [|s ss IH]; intros zz oo E S P; inversion S as [|x q y oo' S1 S2]; subst; inversion E; subst; [apply none_stepped|].
      inversion P; subst. match goal with X : ends _ s ?z |- _ => destruct (ends_wait _ _ _ X) as [EN OW] end.
      change (all_held M (map (norm true k) (s :: ss))) with (plus (held M (norm true k s)) (all_held M (map (norm true k) ss))).
      destruct q as [n|].
      + destruct (stands_facts _ _ S1) as (_ & _ & _ & ([m' lr] & G0 & G1 & G2) & _).
        eapply (add_step _ _ _ _ _ _ _ _ _ lr); [exact G1| | |now apply held_nonneg|lia|now apply IH].
        * intros m [= <-]. now split.
        * intros m [= <-]. exists m'. split; [now rewrite norm_wait|]. assert (overdue k (at_node n) = false) as OT by (eapply on_time; eauto).
          destruct (falls n OT) as [F1 F2]. destruct G0 as [[= <- <-]|G0].
          -- split; [eapply timely_on; [now left|eassumption]|exact F1].
          -- split; [eapply timely_on; [right; apply in_or_app; left; exact (in_map fst _ _ G0)|eassumption]|exact (F2 _ G0)].
      + eapply (add_step _ _ _ _ _ _ _ _ _ none); [now apply held_nonneg|intros m [=]|intros m [=]|now apply held_nonneg|lia|now apply IH].
    Qed.
  End Step.
  Lemma none_fits ss : room I ss -> fitsb M none = true.
  Proof.
    apply fits_most. clear - block_ok. induction ss as [|s ss IH]; [apply most_refl|].
    change (most none (plus (held M s) (all_held M ss))). rewrite <- (plus_none none) at 1.
    apply most_plus; [now apply held_nonneg|exact IH].
  Qed.
  Lemma rated_le ss nn : Forall2 stands ss nn -> sum (fun n => rated (at_node n)) nn <= sum (urate o) ss.
  Proof.
    unfold sum. induction 1 as [|s n ss nn S _ IH]; cbn [fold_right]; [lia|]. destruct (stands_facts _ _ S) as (_ & H & _). lia.
  Qed.
  Lemma idles ss nn : Forall2 stands ss nn -> Forall2 stands (map (norm true 1) ss) (map (fun n => idle (at_node n)) nn).
  Proof. induction 1 as [|s n ss nn S _ IH]; cbn; constructor; [|exact IH]. now destruct (stands_facts _ _ S) as (_ & _ & H & _). Qed.
  Lemma pay_taken r ee : pay r (taken ee) = sum (fun e => pay r (snd e)) ee.
  Proof. unfold sum. induction ee as [|e ee IH]; cbn [taken fold_right]; [unfold pay; cbn; ring|]. rewrite pay_plus, <- IH. reflexivity. Qed.
  Lemma all_end now zz nn : Forall R11 zz -> Forall2 stands (map (norm true now) zz) nn -> forallb (fun n => ended (at_node n)) nn = true.
  Proof.
    intros F. revert nn. induction F as [|s zz E _ IH]; intros nn S; inversion S as [|x n y nn' S1 S2]; subst; [reflexivity|].
    cbn [forallb]. rewrite (IH _ S2), andb_true_r. apply (stands_facts _ _ S1). cbn. unfold R11 in E. now destruct (over s).
  Qed.
  Lemma meter_nonneg now ss bs zz d : run I now ss bs zz d -> good ss -> 0 <= meter I o now ss bs.
  Proof.
    clear is_steady. induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros G; cbn [meter]; [lia|]. fold D.
    specialize (IH (good_next I _ _ _ G)). unfold R1 in T.
    assert (0 <= sum (urate o) ss) as U.
    { clear - G. induction G as [|s ss F _ IH]; cbn [sum fold_right]; [lia|]. unfold sum in IH.
      pose proof (urate_nonneg o s F). lia. }
    pose proof (urate_le o ss). assert (1 <= D) by apply lasts_1.
    assert (0 <= fee o ss D) by (unfold fee; destruct o; try lia; nia). nia.
  Qed.
  (* A run either ends, or idles for a tick, or begins with a batch. *)
  Lemma run_cases now ss bs zz d : run I now ss bs zz d -> good ss -> room I ss ->
    zz = ss /\ 0 <= meter I o now ss bs
    \/ run I (now + 1) ss bs zz d /\ meter I o now ss bs = rate o ss + meter I o (now + 1) ss bs
    \/ exists aa bs' d', Forall2 (local M now) ss aa /\ joint M (total M ss aa)
       /\ run I (now + 1) (nexts M (now + 1) ss aa) bs' zz d' /\ good (nexts M (now + 1) ss aa) /\ room I (nexts M (now + 1) ss aa)
       /\ meter I o now ss bs = rate o ss + meter I o (now + 1) (nexts M (now + 1) ss aa) bs'.
  Proof.
    pose proof is_steady as [TM U]%andb_true_iff. intros R G RM. destruct R as [now ss|now ss t aa bs zz d T L J D R].
    - left. split; [reflexivity|]. cbn. lia.
    - right. unfold R1 in T. assert (D = 1) as D1 by (apply unit_1; exact U). destruct (Z.eq_dec t now) as [->|N]; [right|left].
      + rewrite D1 in R. exists aa, bs, d. split; [exact L|]. split; [exact J|]. split; [exact R|].
        split; [now apply good_next|]. split; [eapply room_next; eauto; now apply joint_fits|].
        cbn [meter]. fold D. rewrite D1, fee_timed by exact TM. unfold M. lia.
      + split; [apply go; try assumption; unfold R1; lia|]. cbn [meter]. lia.
  Qed.
  Lemma ended_owe k ss oo : Forall R11 ss -> good ss -> owing k oo ss ss = 0.
  Proof.
    intros F. revert oo. induction F as [|s ss E F IH]; intros [|q oo] G; try reflexivity. inversion G as [|x y [_ G1] G2]; subst. cbn [owing].
    rewrite (IH _ G2). unfold R11 in E. specialize (G1 E). unfold owed.
    destruct (some q), o; cbn [end_of]; try lia; [destruct (over s)|destruct (over s)|destruct (first s)]; try lia; congruence.
  Qed.
  Lemma run_done now ss bs zz d : run I now ss bs zz d -> good ss -> Forall R11 zz -> Forall (fun z => end_of o z <> None) zz.
  Proof.
    intros R G F. assert (Forall inv ss) as V by (eapply Forall_impl; [|exact G]; now intros s [_ V]).
    pose proof (run_inv _ _ _ _ _ _ R V) as W. rewrite Forall_forall in *. intros z K. specialize (F z K). specialize (W z K).
    unfold R11, inv in *. destruct o; cbn [end_of]; tauto.
  Qed.
  Lemma owed_nonneg k ss zz oo : Forall2 (ends k) ss zz -> good ss -> Forall (fun z => end_of o z <> None) zz -> 0 <= owing k oo ss zz.
  Proof.
    intros E. revert oo. induction E as [|s z ss zz E _ IH]; intros [|q oo] G F; cbn [owing]; try lia.
    inversion G as [|x y [W _] G2]; subst. inversion F as [|x y N F2]; subst. specialize (IH oo G2 F2).
    assert (0 <= owed k s z); [|destruct (some q); lia]. unfold owed, ends in *. destruct (end_of o s).
    - destruct o; lia.
    - destruct (end_of o z) as [c|]; [|congruence]. specialize (E c eq_refl). cbn [at_]. destruct o; cbn [weigh]; nia.
  Qed.
  Lemma ended_worth k before rows zz oo : forallb (row_ok M) rows = true -> Forall R11 zz -> Forall2 tracked (map (norm true k) zz) oo ->
    worth (snd (hd off (layers_of k before rows))) oo = 0.
  Proof.
    intros H F. revert oo. induction F as [|z zz E _ IH]; intros oo S; inversion S as [|x q y oo' S1 S2]; subst; [reflexivity|].
    cbn [worth fold_right]. fold (worth (snd (hd off (layers_of k before rows))) oo'). rewrite (IH _ S2). destruct q as [n|]; [|reflexivity].
    destruct (stands_facts _ _ S1) as (D & _). destruct (layers_facts rows H k before n) as [_ ->]; [reflexivity|].
    apply D. cbn. unfold R11 in E. now destruct (over z).
  Qed.
  Lemma supply_left rows : fitsb M none = true -> forallb (row_ok M) rows = true -> forall k before, 0 <= snd (snd (hd off (layers_of k before rows))).
  Proof.
    intros Z0. induction rows as [|x xs IX]; intros H k before; cbn [layers_of hd snd off]; [lia|]. cbn [forallb] in H.
    apply andb_true_iff in H. destruct H as [A B]. specialize (IX B (k + 1) x). pose proof (supply_nonneg I x A Z0) as SN. fold M in SN. lia.
  Qed.
  Lemma sound_layers rows : forallb (row_ok M) rows = true -> forall k before, sound k (snd (hd off (layers_of k before rows))).
  Proof.
    induction rows as [|r rows IH]; intros H k before ss oo bs zz d R F G RM S P.
    - cbn [layers_of hd snd off]. assert (worth (Tip, 0) oo = 0) as -> by (clear; unfold worth; induction oo as [|[n|] oo IO]; cbn; auto).
      pose proof (owed_nonneg k ss zz oo (run_ends _ _ _ _ _ R) G (run_done _ _ _ _ _ R G F)). cbn. nia.
    - pose proof (worth_steps k before rows r) as W. pose proof H as H'. cbn [forallb] in H'. apply andb_true_iff in H'. destruct H' as [RO H'].
      specialize (IH H' (k + 1) r). pose proof (supply_left _ (none_fits _ RM) H k before) as SL.
      pose proof (ended_worth k before (r :: rows)) as EW. set (p := snd (hd off (layers_of k before (r :: rows)))) in *.
      set (p' := snd (hd off (layers_of (k + 1) r rows))) in *. assert (snd p = supply M r + snd p') as SP by reflexivity.
      assert (forall n, overdue k (at_node n) = false ->
        val p n <= scale * rated (at_node n) + pay r (hold (at_node n)) + val p' (idle (at_node n))
        /\ forall e, edge_of n e -> val p n <= scale * rated (at_node n) + pay r (snd e) + val p' (fst e)) as W' by (intros n; now apply W).
      destruct (run_cases _ _ _ _ _ R G RM) as [[-> Q]|[[R' _]|(aa & bs' & d' & L & J & R' & G' & RM' & _)]].
      + rewrite (EW _ _ H F S), ended_owe by assumption. lia.
      + destruct (idle_tracked r p p' k W' ss zz oo (run_ends _ _ _ _ _ R') S P) as (oo' & A & B & l & C & D).
        specialize (IH _ _ _ _ _ R' F G RM A B). assert (pay r l <= supply M r); [|lia].
        apply pay_le; [exact RO|]. eapply fits_most; [exact C|]. now apply room_norm.
      + pose proof (joint_fits I _ J) as F0.
        destruct (batch_tracked r p p' k W' ss aa L zz oo (run_ends _ _ _ _ _ R') S P F0) as (oo' & A & B & l & C & D).
        specialize (IH _ _ _ _ _ R' F G' RM' A B). assert (pay r l <= supply M r); [|lia].
        apply pay_le; [exact RO|]. eapply fits_most; [exact C|exact F0].
  Qed.
  Lemma same_length {A B} (P : A -> B -> Prop) xs ys : Forall2 P xs ys -> length xs = length ys.
  Proof. induction 1; cbn [length]; congruence. Qed.
  (* All requests together: what their ticks cost is no more than the run. *)
  Lemma tracks ss nn : Forall2 stands ss nn -> Forall2 tracked ss (map Some nn).
  Proof. induction 1; constructor; assumption. Qed.
  Lemma punctuals zz nn : Forall2 timely zz nn -> Forall2 punctual zz (map Some nn).
  Proof. induction 1; constructor; assumption. Qed.
  Lemma worth_all p nn : worth p (map Some nn) = sum (val p) nn.
  Proof. unfold worth, sum. induction nn as [|n nn IH]; cbn [map fold_right]; [reflexivity|now rewrite IH]. Qed.
  Lemma owing_step now t E ss aa : Forall2 (local M t) ss aa -> now < E -> forall zz (nn : list nat), Forall2 (ends E) (nexts M E ss aa) zz -> length nn = length ss ->
    owing now (map Some nn) ss zz = (E - now) * sum (urate o) ss + owing E (map Some nn) (nexts M E ss aa) zz.
  Proof.
    intros L N. induction L as [|s a ss aa L _ IH]; intros zz [|n nn]; cbn [length]; try easy; intros X Y; inversion X as [|x z y zz' X1 X2]; subst; [cbn; lia|].
    cbn [map owing nexts sum fold_right some]. injection Y as Y. fold (sum (urate o) ss). rewrite (IH _ _ X2 Y). destruct (ends_step now t E s a z L N X1). lia.
  Qed.
  Lemma nexts_length t E ss aa : Forall2 (local M t) ss aa -> length (nexts M E ss aa) = length ss.
  Proof. induction 1 as [|s a ss aa _ _ IH]; cbn [nexts length]; [reflexivity|now rewrite IH]. Qed.
  Lemma owing_le now ss bs zz d : run I now ss bs zz d -> 0 <= now -> good ss -> forall nn : list nat, length nn = length ss ->
    owing now (map Some nn) ss zz <= meter I o now ss bs.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros N G nn LN; cbn [meter].
    - revert nn LN. induction G as [|s ss [W _] G IG]; intros [|n nn] LN; cbn [length] in LN; try easy; cbn [map owing some].
      injection LN as LN. specialize (IG _ LN). assert (owed now s s <= 0); [|lia]. unfold owed. destruct (end_of o s); [destruct o; lia|].
      cbn [at_]. destruct o; cbn [weigh]; nia.
    - unfold R1 in T. assert (1 <= D) as D1 by apply lasts_1. fold M D. rewrite (owing_step now t (t + D) _ _ L ltac:(lia) _ _ (run_ends _ _ _ _ _ R) LN).
      assert (length nn = length (nexts M (t + D) ss aa)) as LN' by (rewrite LN; symmetry; exact (nexts_length _ _ _ _ L)).
      specialize (IH ltac:(lia) (good_next I _ _ _ G) nn LN'). pose proof (urate_le o ss) as U.
      apply Z.add_le_mono; [|exact IH]. assert (0 <= sum (urate o) ss) as RN.
      { clear - G. unfold sum. induction G as [|s ss F _ IG]; cbn [fold_right]; [lia|]. pose proof (urate_nonneg o s F). lia. }
      pose proof (Z.mul_le_mono_nonneg_l _ _ (t + D - now) ltac:(lia) U) as V.
      assert (o = Busy \/ forall x, fee o ss x = rate o ss * x) as [B|B] by (destruct o; cbn; tauto); [rewrite B in *|rewrite B; unfold D, M in *; lia].
      replace (sum (urate Busy) ss) with 0 by (clear; unfold sum; induction ss; cbn; auto). rewrite Z.mul_0_r. cbn [rate fee]. unfold D, M in *. lia.
  Qed.
  Lemma sound_joint k p now ss nn bs zz d : now = k -> sound k p -> run I now ss bs zz d -> 0 <= k -> Forall R11 zz -> good ss -> room I ss ->
    Forall2 stands (map (norm true k) ss) nn -> Forall2 timely zz nn -> sum (val p) nn - snd p <= scale * meter I o k ss bs.
  Proof.
    intros -> S R N F G RM A B. pose proof (S _ _ _ _ _ R F G RM (tracks _ _ A) (punctuals _ _ B)) as X. rewrite worth_all in X.
    pose proof (owing_le _ _ _ _ _ R N G nn ltac:(rewrite <- (same_length _ _ _ A), map_length; reflexivity)). nia.
  Qed.
  (* Deadlines from values: a request that ended later would cost so much that, with what others are worth, no value is
     below the target. *)
  Definition tightens (p : pot) start l := let all := sum (val p) start - snd p in
    forallb (fun n => let x := at_node n in match deadlines with Some l' => latest l' x <=? latest l x | None => false end
      || (target <=? all - val p n + scale * rated x * (latest l x + 1))) start.
  Fixpoint without i (nn : list nat) := match nn, i with
    | [], _ => [] | n :: nn, O => None :: map Some nn | n :: nn, S i => Some n :: without i nn end.
  Lemma without_all {A} (P : A -> nat -> Prop) (Q : A -> option nat -> Prop) : (forall x, Q x None) -> (forall x n, P x n -> Q x (Some n)) ->
    forall xs nn, Forall2 P xs nn -> forall i, Forall2 Q xs (without i nn).
  Proof.
    intros N K xs nn. induction 1 as [|x n xs nn H F IH]; intros [|i]; cbn [without]; constructor; auto.
    clear - F K. induction F; constructor; auto.
  Qed.
  Lemma worth_without p nn : forall i, (i < length nn)%nat -> worth p (without i nn) = sum (val p) nn - val p (nth i nn O).
  Proof.
    induction nn as [|n nn IH]; intros [|i] L; cbn [length] in L; try lia; cbn [without worth fold_right nth sum].
    - fold (worth p (map Some nn)) (sum (val p) nn). rewrite worth_all. lia.
    - fold (worth p (without i nn)) (sum (val p) nn). rewrite IH by lia. lia.
  Qed.
  Lemma owing_without k (nn : list nat) : forall i ss zz a z, (i < length nn)%nat -> length ss = length nn -> length zz = length nn ->
    owing k (map Some nn) ss zz = owing k (without i nn) ss zz + owed k (nth i ss a) (nth i zz z).
  Proof.
    induction nn as [|n nn IH]; intros [|i] [|s ss] [|y zz] a z L; cbn [length] in *; try lia; intros; cbn [without map owing some nth]; [lia|].
    rewrite (IH i ss zz a z) by lia. lia.
  Qed.
  Lemma by_place {A B} (P : A -> B -> Prop) a b xs : forall ys, length xs = length ys ->
    (forall i, (i < length xs)%nat -> P (nth i xs a) (nth i ys b)) -> Forall2 P xs ys.
  Proof.
    induction xs as [|x xs IH]; intros [|y ys]; cbn [length]; try easy; intros E H; constructor; [apply (H O); lia|].
    apply IH; [lia|]. intros i L. apply (H (S i)). lia.
  Qed.
  Lemma at_place {A B} (P : A -> B -> Prop) xs ys : Forall2 P xs ys -> forall i a b, (i < length xs)%nat -> P (nth i xs a) (nth i ys b).
  Proof. induction 1 as [|x y xs ys H _ IH]; intros [|i] a b; cbn [length nth]; try lia; [easy|]. intros L. apply IH. lia. Qed.
  Lemma tightened p ss bs zz d start l : sound 0 p -> run I 0 ss bs zz d -> Forall R11 zz -> good ss -> room I ss ->
    Forall (fun s => end_of o s = None) ss -> Forall2 stands (map (norm true 0) ss) start -> Forall2 timely zz start ->
    tightens p start l = true -> scale * meter I o 0 ss bs < target ->
    Forall2 (fun z n => exists c, end_of o z = Some c /\ c <= latest l (at_node n)) zz start.
  Proof.
    intros SP R F G RM NO S T K V. destruct ss as [|a ss']; [inversion S; subst; inversion T; constructor|]. set (ss := a :: ss') in *.
    pose proof (same_length _ _ _ S) as L1. rewrite map_length in L1. pose proof (same_length _ _ _ T) as L2.
    pose proof (run_done _ _ _ _ _ R G F) as DN. apply (by_place _ a O); [exact L2|]. intros i LI.
    pose proof (SP ss (without i start) _ _ _ R F G RM (without_all _ _ (fun _ => Logic.I) (fun _ _ H => H) _ _ S i)
      (without_all _ _ (fun _ => Logic.I) (fun _ _ H => H) _ _ T i)) as X.
    rewrite worth_without in X by lia. pose proof (owing_le _ _ _ _ _ R ltac:(lia) G start ltac:(lia)) as Y.
    rewrite (owing_without 0 start i ss zz a a) in Y by lia. set (z := nth i zz a) in *. set (n := nth i start O) in *.
    assert (In z zz) as ZI by (apply nth_In; lia). rewrite Forall_forall in DN. specialize (DN z ZI).
    destruct (end_of o z) as [c|] eqn:E; [|congruence]. exists c. split; [reflexivity|]. apply Z.le_ngt. intros LT.
    unfold tightens in K. rewrite forallb_forall in K. assert (In n start) as NI by (apply nth_In; lia). specialize (K n NI). cbv zeta in K. apply orb_true_iff in K. destruct K as [K|K]; [|apply Z.leb_le in K].
    { destruct deadlines as [l'|] eqn:Q; [|discriminate]. apply Z.leb_le in K. destruct (at_place _ _ _ T i a O ltac:(lia) l' Q) as (c' & C1 & C2).
      fold z in C1. fold n in C2. rewrite E in C1. injection C1 as <-. lia. }
    assert (In (nth i ss a) ss) as SI by (apply nth_In; lia). rewrite Forall_forall in NO. specialize (NO _ SI).
    pose proof (at_place _ _ _ S i (norm true 0 a) O ltac:(rewrite map_length; lia)) as U. rewrite map_nth in U.
    destruct (stands_facts _ _ U) as (_ & RU & _). rewrite urate_norm in RU. fold n in RU. destruct (node_facts n) as (RN & _).
    assert (owed 0 (nth i ss a) z = urate o (nth i ss a) * c) as OW by (unfold owed, urate; rewrite NO, E; destruct o; cbn [if0 some negb at_]; lia).
    assert (0 <= latest l (at_node n)) as LN by (unfold latest; clear; induction (kinds (at_node n)); cbn [fold_right]; lia).
    assert (rated (at_node n) * (latest l (at_node n) + 1) <= urate o (nth i ss a) * c) by nia. nia.
  Qed.
  (* --- Closed sets, layer by layer ---------------------------------------------------------------------------- *)
  Definition opts_of := (list Z * list ((nat * load) * list Z))%type.
  Record layer := Layer {
    entries : search_tree (list (list nat * Z));
    steer : list nat -> option (list nat);  (* any functions, and nodes: to nodes that are as good, which are entries, *)
    guide : list nat -> nat;  (* by which vector to leave out batches, *)
    used : list (search_tree nat) }.  (* and whose edges to look up, by vector *)
  Definition found L nn := match seek (hashes nn) (entries L) with None => None | Some l =>
    option_map snd (find (fun e => list_eqb Nat.eqb (fst e) nn) l) end.
  Definition held_at L nn b := match found L nn with Some b' => b' <=? b | None => false end.
  Fixpoint all_as_good nn' nn := match nn', nn with
    | [], [] => true | n' :: nn', n :: nn => as_good n' n && all_as_good nn' nn | _, _ => false end.
  Definition settled (ps : list step) L nn b := (target <=? b)
    || (let nn := arrange nn in held_at L nn b
        || match steer L nn with Some nn' => all_as_good nn' nn && held_at L (arrange nn') b | None => false end)
    || existsb (fun p => target <=? b + (sum (val (snd p)) nn - snd (snd p))) ps.
  Definition rate_of nn := match o with Makespan => b2z (existsb (fun n => negb (ended (at_node n))) nn)
    | _ => sum (fun n => rated (at_node n)) nn end.
  (* Edges for all requests, one by one; a branch ends where a limit is exceeded, or what is to come is worth enough. *)
  Fixpoint each (oo : list (list ((nat * load) * list Z))) l nn slack more {struct oo} := match oo with
    | [] => if usable l then nn :: more else more
    | os :: oo => fold_right (fun x more => let slack := minus slack (snd x) in
        if existsb (fun y => y <=? 0) slack then more else
          let l := plus l (snd (fst x)) in
          if fitsb M l then each oo l (fst (fst x) :: nn) slack more else more) more os
    end.
  Definition tried (p : step) (e : nat * load) := pay (fst p) (snd e) + val (snd p) (fst e).
  Definition lowest p n := fold_right (fun e x => Z.min (tried p e) x) far (edges (at_node n)).
  Definition options ps n : opts_of :=
    let tried := map (fun e => (e, map (fun p => tried p e) ps)) (edges (at_node n)) in
    let low := fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps) tried in
    (low, map (fun x => (fst x, minus (snd x) low)) tried).
  Definition slack_of (ps : list step) (b : Z) (chosen : list opts_of) :=
    fold_right (fun c x => minus x (fst c)) (map (fun p => target + supply M (fst p) + snd (snd p) - b) ps) chosen.
  Definition table ps ns := (ps, each_of (fun n => (n, options ps n)) ns).
  Definition options_in (t : list step * search_tree (nat * opts_of)) n := match seek n (snd t) with
    | Some (n', c) => if Nat.eqb n' n then c else options (fst t) n | None => options (fst t) n end.
  Definition tables ps L := map (fun pu : step * search_tree nat => table [(zero, snd (fst pu)); fst pu] (snd pu)) (combine ps (used L)).  (* with prices of the slot, and without *)
  Definition follow (t : list step * search_tree (nat * opts_of)) (e : list nat * Z) := let nn := fst e in
    let b := snd e + scale * rate_of nn in let chosen := map (options_in t) nn in
    (b, map (fun n => idle (at_node n)) nn :: each (map snd chosen) none [] (slack_of (fst t) b chosen) []).
  Definition all_ended nn := forallb (fun n => ended (at_node n)) nn.
  Definition settle ps L (x : Z * list (list nat)) := forallb (fun nn => settled ps L nn (fst x)) (snd x).
  Record vector := Vector { since : nat; span : nat; steps : list step }.  (* in use from a tick on, for so many *)
  Definition now_of vs := flat_map (fun v => match since v, span v with O, S _ => [hd off (steps v)] | _, _ => [] end) vs.
  Definition later vs := map (fun v => match since v with
    | S n => Vector n (span v) (steps v) | O => Vector 0 (pred (span v)) (tl (steps v)) end) vs.
  Definition followed ps L e := follow (nth (guide L (fst e)) (tables ps L) ([], Tip)) e.
  (* The next layer is chosen when all that it has to hold is known; nothing of the choice is believed. *)
  Variable choose : list vector -> list (list (Z * list (list nat))) -> layer.
  Fixpoint closed ticks vs L := match items (entries L) [], ticks with [], _ => true | _, O => false | ee, S ticks =>
    let vs := later vs in let ps := now_of vs in let tt := tables ps L in
    let next := items (each_of (map (fun e => follow (nth (guide L (fst e)) tt ([], Tip)) e)) (entries L)) [] in let L' := choose vs next in
    forallb (forallb (fun e => negb (all_ended (fst e)) || (target <=? snd e))) ee && forallb (forallb (settle ps L')) next
    && closed ticks vs L' end.

  Definition reaches k (e : list nat * Z) := forall ss nn bs zz d, run I k ss bs zz d -> Forall R11 zz -> good ss ->
    room I ss -> Forall2 stands (map (norm true k) ss) nn -> Forall2 timely zz nn -> Permutation nn (fst e) ->
    target <= snd e + scale * meter I o k ss bs.
  Definition all_reach k L := forall l, In l (items (entries L) []) -> forall e, In e l -> reaches k e.
  Lemma sum_perm {A} (f : A -> Z) xs ys : Permutation xs ys -> sum f xs = sum f ys.
  Proof. unfold sum. induction 1; cbn [fold_right]; lia. Qed.
  Lemma as_good_all nn nn' : all_as_good nn' nn = true -> Forall2 (fun n n' => as_good n' n = true) nn nn'.
  Proof.
    revert nn. induction nn' as [|n' nn' IH]; intros [|n nn]; cbn; try easy. rewrite andb_true_iff. intros [A B]. constructor; [exact A|now apply IH].
  Qed.
  Lemma carried {A} (P : A -> nat -> Prop) : (forall x n n', as_good n' n = true -> P x n -> P x n') ->
    forall xs nn, Forall2 P xs nn -> forall nn', Forall2 (fun n n' => as_good n' n = true) nn nn' -> Forall2 P xs nn'.
  Proof. intros K xs nn. induction 1; intros nn' F; inversion F; subst; constructor; eauto. Qed.
  Lemma timely_as_good z n n' : as_good n' n = true -> timely z n -> timely z n'.
  Proof.
    intros [->|K]%as_good_in H; [exact H|]. eapply timely_on; [|exact H]. right. apply in_or_app. now right.
  Qed.
  Lemma list_eqb_nat xs ys : list_eqb Nat.eqb xs ys = true -> xs = ys.
  Proof. apply list_eqb_eq. intros a b. apply Nat.eqb_eq. Qed.
  Lemma held_reaches k L nn b : all_reach k L -> held_at L nn b = true -> reaches k (nn, b).
  Proof.
    unfold held_at, found. intros A H. destruct (seek _ _) as [l|] eqn:E; [|discriminate].
    destruct (find _ l) as [[kk b']|] eqn:Q; [|discriminate]. cbn [option_map snd] in H. apply Z.leb_le in H.
    apply find_some in Q. destruct Q as [Q1 Q2]. apply list_eqb_nat in Q2. cbn [fst] in Q2. subst kk.
    intros ss mm bs zz d R F G RM S T PM. pose proof (A l (seek_in _ _ _ E []) _ Q1 _ _ _ _ _ R F G RM S T PM) as X. cbn [fst snd] in *. lia.
  Qed.
  Definition good_step k (p : step) := row_ok M (fst p) = true /\ sound (k + 1) (snd p).
  Lemma settled_reaches k ps L nn b : 0 <= k -> (forall p, In p ps -> sound k (snd p)) -> all_reach k L -> settled ps L nn b = true -> reaches k (nn, b).
  Proof.
    intros K0 P A H ss mm bs zz d R F G RM S T PM. cbn [fst snd] in *. pose proof (meter_nonneg _ _ _ _ _ R G) as N.
    pose proof (Z.mul_nonneg_nonneg _ _ scale_ok N). unfold settled in H. cbv zeta in H. rewrite !orb_true_iff in H. destruct H as [[H|[H|H]]|H].
    - apply Z.leb_le in H. lia.
    - apply (held_reaches k L _ b A H ss mm bs zz d); try assumption. cbn [fst]. rewrite arrange_perm. exact PM.
    - destruct (steer L (arrange nn)) as [nn'|]; [|discriminate]. apply andb_true_iff in H. destruct H as [K H].
      apply as_good_all in K. assert (Permutation (arrange nn) mm) as P2 by (rewrite arrange_perm; now apply Permutation_sym).
      destruct (Permutation_Forall2 P2 K) as (mm' & PM' & K').
      apply (held_reaches k L _ b A H ss mm' bs zz d); try assumption.
      + exact (carried _ (fun x n n' => as_good_stands x n n') _ _ S _ K').
      + exact (carried _ timely_as_good _ _ T _ K').
      + cbn [fst]. rewrite arrange_perm. now apply Permutation_sym.
    - apply existsb_exists in H. destruct H as (p & K & H). apply Z.leb_le in H.
      pose proof (sound_joint k (snd p) k ss mm bs zz d eq_refl (P p K) R K0 F G RM S T) as X. rewrite (sum_perm (val (snd p)) _ _ PM) in X. lia.
  Qed.
  Lemma rate_of_le ss nn : Forall2 stands ss nn -> rate_of nn <= rate o ss.
  Proof.
    intros S. pose proof (rated_le _ _ S). pose proof (urate_le o ss). unfold rate_of. destruct o eqn:E; try lia.
    clear H H0. unfold rate. induction S as [|s n ss nn S _ IH]; cbn [existsb]; [lia|].
    destruct (stands_facts _ _ S) as (D & _). destruct (over s); cbn [some] in *; [rewrite (D eq_refl); exact IH|cbn].
    destruct (negb _ || existsb _ _); cbn; lia.
  Qed.
  Lemma rate_of_perm nn kk : Permutation nn kk -> rate_of nn = rate_of kk.
  Proof.
    intros H. unfold rate_of. destruct o; try now apply sum_perm. f_equal.
    induction H; cbn; [reflexivity|now rewrite IHPermutation| |congruence]. now rewrite !orb_assoc, (orb_comm (negb (ended (at_node y)))).
  Qed.
  Lemma ended_perm nn kk : Permutation nn kk -> forallb (fun n => ended (at_node n)) nn = true -> forallb (fun n => ended (at_node n)) kk = true.
  Proof.
    intros H. rewrite !forallb_forall. intros A x X. apply A. eapply Permutation_in; [apply Permutation_sym|]; eauto.
  Qed.
  Lemma taken_perm ee ff : Permutation ee ff -> taken ee = taken ff.
  Proof.
    induction 1; cbn [taken fold_right]; [reflexivity|unfold taken in IHPermutation; now rewrite IHPermutation| |congruence].
    now rewrite <- !plus_assoc, (plus_comm (snd y)).
  Qed.
  Lemma edges_nonneg nn ee : Forall2 edge_of nn ee -> most none (taken ee).
  Proof.
    induction 1 as [|n e nn ee E _ IH]; cbn [taken fold_right]; [apply most_refl|]. rewrite <- (plus_none none) at 1.
    apply most_plus; [|exact IH]. destruct (node_facts n) as (_ & _ & H & _). now apply H.
  Qed.
  Definition over_least p n (e : nat * load) := tried p e - lowest p n.
  Fixpoint excess p nn (ee : list (nat * load)) := match nn, ee with
    | n :: nn, e :: ee => over_least p n e + excess p nn ee | _, _ => 0 end.
  Lemma excess_is p nn ee : Forall2 edge_of nn ee -> excess p nn ee = pay (fst p) (taken ee) + sum (val (snd p)) (map fst ee) - sum (lowest p) nn.
  Proof.
    rewrite pay_taken. unfold sum, over_least, tried. induction 1 as [|n e nn ee E _ IH]; cbn [excess map fold_right]; [reflexivity|].
    unfold over_least, tried. lia.
  Qed.
  Lemma excess_nonneg p nn ee : Forall2 edge_of nn ee -> 0 <= excess p nn ee.
  Proof.
    induction 1 as [|n e nn ee E _ IH]; cbn [excess]; [lia|]. assert (lowest p n <= tried p e); [|unfold over_least; lia].
    clear - E. unfold lowest, edge_of in *. induction (edges (at_node n)) as [|f l IL]; [destruct E|]. cbn [fold_right].
    destruct E as [->|E]; [lia|]. specialize (IL E). lia.
  Qed.
  Lemma options_are ps n : options ps n = (map (fun p => lowest p n) ps, map (fun e => (e, map (fun p => over_least p n e) ps)) (edges (at_node n))).
  Proof.
    unfold options, over_least. cbv zeta.
    assert (forall es, fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps)
      (map (fun e : nat * load => (e, map (fun p => tried p e) ps)) es)
      = map (fun p => fold_right (fun e x => Z.min (tried p e) x) far es) ps) as E.
    { induction es as [|e es IH]; cbn [map fold_right snd]; [reflexivity|]. rewrite IH. apply minimum_map. }
    rewrite E. f_equal. rewrite map_map. apply map_ext. intros e. cbn [fst snd]. now rewrite minus_map.
  Qed.
  Lemma options_in_are ps ns n : options_in (table ps ns) n = options ps n.
  Proof.
    unfold options_in, table. cbn [fst snd]. rewrite seek_each. destruct (seek n ns) as [n'|]; [|reflexivity]. cbn [option_map].
    destruct (Nat.eqb_spec n' n) as [->|]; reflexivity.
  Qed.
  Lemma each_more oo : forall l nn slack more x, In x more -> In x (each oo l nn slack more).
  Proof.
    induction oo as [|os oo IH]; cbn [each]; intros l nn slack more x H; [destruct (usable l); [now right|exact H]|].
    induction os as [|y os IO]; cbn [fold_right]; [exact H|]. cbv zeta. destruct (existsb _ _); [exact IO|]. destruct (fitsb _ _); [now apply IH|exact IO].
  Qed.
  Lemma each_sound ps nn ee : Forall2 edge_of nn ee -> forall l tt (slack : step -> Z) more, most none l ->
    fitsb M (plus l (taken ee)) = true -> usable (plus l (taken ee)) = true ->
    In (rev (map fst ee) ++ tt) (each (map snd (map (options ps) nn)) l tt (map slack ps) more) \/ exists p, In p ps /\ slack p <= excess p nn ee.
  Proof.
    induction 1 as [|n e nn ee E EE IH]; intros l tt slack more N F U.
    - left. cbn [map each taken fold_right rev app] in *. rewrite plus_comm, plus_none in U. rewrite U. now left.
    - cbn [taken fold_right map each excess rev] in *. fold (taken ee) in *. destruct (node_facts n) as (_ & _ & N1 & _).
      specialize (N1 e E). pose proof (edges_nonneg _ _ EE) as N2. rewrite <- plus_assoc in F, U. rewrite <- app_assoc.
      assert (fitsb M (plus l (snd e)) = true) as F1 by (eapply fits_most; [|exact F]; now apply most_none_r).
      assert (most none (plus l (snd e))) as N3 by (rewrite <- (plus_none none); now apply most_plus).
      rewrite options_are. cbn [snd]. unfold edge_of in E. induction (edges (at_node n)) as [|e' es IL]; [destruct E|]. cbn [map fold_right fst snd].
      destruct E as [->|E].
      + rewrite minus_map, F1. cbv zeta. destruct (existsb _ _) eqn:X.
        * right. apply existsb_exists in X. destruct X as (y & Y & X). apply in_map_iff in Y. destruct Y as (p & <- & Y).
          exists p. split; [exact Y|]. apply Z.leb_le in X. pose proof (excess_nonneg p nn ee EE). lia.
        * match goal with |- In _ (each _ _ _ _ ?more) \/ _ =>
            destruct (IH _ (fst e :: tt) (fun p => slack p - over_least p n e) more N3 F U) as [G|(p & G & K)]; [left; exact G|] end.
          right. exists p. split; [exact G|]. lia.
      + destruct (IL E) as [G|G]; [left|now right]. cbv zeta in *. destruct (existsb _ _); [exact G|]. destruct (fitsb M (plus l (snd e'))); [now apply each_more|exact G].
  Qed.
  Lemma slack_is ps b nn : slack_of ps b (map (options ps) nn) = map (fun p => target + supply M (fst p) + snd (snd p) - b - sum (lowest p) nn) ps.
  Proof.
    unfold slack_of. induction nn as [|n nn IH]; cbn [map fold_right sum].
    - apply map_ext. intros p. lia.
    - rewrite IH, options_are. cbn [fst]. rewrite minus_map. apply map_ext. intros p. unfold sum. lia.
  Qed.
  Lemma zero_ok : row_ok M zero = true.
  Proof. unfold row_ok, priced, zero. cbn. rewrite !orb_true_r. reflexivity. Qed.
  Lemma timelies zz nn : Forall2 timely zz nn -> Forall2 timely zz (map (fun n => idle (at_node n)) nn).
  Proof. induction 1; cbn [map]; constructor; [|assumption]. eapply timely_on; [|eassumption]. now left. Qed.
  Lemma timely_edges zz nn ee : Forall2 timely zz nn -> Forall2 edge_of nn ee -> Forall2 timely zz (map fst ee).
  Proof.
    intros T. revert ee. induction T; intros ee E; inversion E; subst; cbn [map]; constructor; [|now apply IHT].
    eapply timely_on; [|eassumption]. right. apply in_or_app. left. now apply in_map.
  Qed.
  Lemma kept_reaches k ps L L' e : 0 <= k -> (forall p, In p ps -> good_step k p) -> all_reach (k + 1) L' ->
    negb (all_ended (fst e)) || (target <=? snd e) = true -> settle ps L' (followed ps L e) = true -> reaches k e.
  Proof.
    intros K0 P A K1 K ss nn bs zz d R F G RM S T PM. unfold settle, followed, follow in K. cbv zeta in K. cbn [fst snd forallb] in K.
    rewrite andb_true_iff in K. rewrite orb_true_iff in K1.
    destruct K as [K2 K3]. pose proof (rate_of_le _ _ S) as RL. rewrite rate_norm, (rate_of_perm _ _ PM) in RL.
    apply (Z.mul_le_mono_nonneg_l _ _ _ scale_ok) in RL. assert (0 <= k + 1) as K4 by lia.
    assert (forall p, In p ps -> sound (k + 1) (snd p)) as PS by (intros p H; apply (P p H)).
    destruct (run_cases _ _ _ _ _ R G RM) as [[-> Q]|[[R' E]|(aa & bs' & d' & LL' & J & R' & G' & RM' & E)]].
    - pose proof (ended_perm _ _ PM (all_end _ _ _ F S)) as DN. unfold all_ended in K1. rewrite DN in K1. destruct K1 as [K1|K1]; [discriminate|].
      apply Z.leb_le in K1. pose proof (Z.mul_nonneg_nonneg _ _ scale_ok Q). lia.
    - rewrite E. pose proof (idles _ _ S) as S'. rewrite <- map_wait in S'.
      pose proof (settled_reaches _ _ _ _ _ K4 PS A K2 _ _ _ _ _ R' F G RM S' (timelies _ _ T) (Permutation_map _ PM)) as X. cbn [fst snd] in X. lia.
    - rewrite E. pose proof (locals_norm true _ _ _ _ LL') as L0. pose proof (joint_fits I _ J) as F0.
      destruct (batch_answered _ _ L0 _ S) as (ee & B & C & D); [now rewrite total_norm|]. rewrite total_norm in C.
      rewrite <- nexts_norm in D by lia. pose proof (timely_edges _ _ _ T B) as TE. destruct (Permutation_Forall2 PM B) as (ff & PE & B').
      rewrite (taken_perm _ _ PE) in C. pose proof (usable_sound _ _ _ _ LL' J C) as U. assert (fitsb M (taken ff) = true) as FT by (eapply fits_most; [apply C|exact F0]).
      assert (exists qs, (forall q, In q qs -> good_step k q) /\ forall nn, In nn (each (map snd (map (options qs) (fst e))) none []
        (slack_of qs (snd e + scale * rate_of (fst e)) (map (options qs) (fst e))) []) -> settled ps L' nn (snd e + scale * rate_of (fst e)) = true) as (qs & GQ & K5).
      { rewrite forallb_forall in K3. destruct (nth_in_or_default (guide L (fst e)) (tables ps L) ([], Tip)) as [H|H].
        - apply in_map_iff in H. destruct H as ([p ns] & H & PI). apply in_combine_l in PI. cbn [fst snd] in H. exists [(zero, snd p); p]. split.
          + intros q [<-|[<-|[]]]; [split; [apply zero_ok|exact (PS p PI)]|exact (P p PI)].
          + rewrite <- H in K3. rewrite (map_ext _ _ (options_in_are _ _)) in K3. exact K3.
        - exists []. split; [intros q []|]. rewrite H in K3. exact K3. }
      rewrite slack_is in K5. assert (fitsb M (plus none (taken ff)) = true) as FF by now rewrite plus_none.
      rewrite <- (plus_none (taken ff)) in U.
      destruct (each_sound qs _ _ B' none [] (fun p => target + supply M (fst p) + snd (snd p) - (snd e + scale * rate_of (fst e)) - sum (lowest p) (fst e))
        [] (most_refl none) FF U) as [X|(p & Y & X)].
      + apply K5 in X. rewrite app_nil_r in X.
        assert (Permutation (map fst ee) (rev (map fst ff))) as PF by (rewrite <- Permutation_rev; now apply Permutation_map).
        pose proof (settled_reaches _ _ _ _ _ K4 PS A X _ _ _ _ _ R' F G' RM' D TE PF) as Z. cbn [fst snd] in Z. lia.
      + rewrite (excess_is _ _ _ B') in X. destruct (GQ p Y) as [RO SP]. pose proof (pay_le I (fst p) (taken ff) RO FT) as PL. fold M in PL.
        pose proof (sound_joint (k + 1) (snd p) (k + 1) _ _ _ _ _ eq_refl SP R' K4 F G' RM' D TE) as Z.
        rewrite (sum_perm (val (snd p)) _ _ (Permutation_map fst PE)) in Z. unfold step, pot in *. lia.
  Qed.
  Definition vector_sound k v := forall i p, nth_error (steps v) i = Some p ->
    row_ok M (fst p) = true /\ sound (k + Z.of_nat (since v) + Z.of_nat i) (snd p).
  Lemma layers_sound rows : forallb (row_ok M) rows = true -> forall k before, row_ok M before = true -> forall i p,
    nth_error (layers_of k before rows) i = Some p -> row_ok M (fst p) = true /\ sound (k + Z.of_nat i) (snd p).
  Proof.
    induction rows as [|r rows IH]; intros H k before B i p N; pose proof (sound_layers _ H k before) as X; cbn [layers_of hd] in X, N.
    - destruct i as [|i]; [|destruct i; discriminate]. injection N as <-. rewrite Z.add_0_r. now split.
    - cbv zeta in X, N. destruct i as [|i]; cbn [nth_error] in N; [injection N as <-; rewrite Z.add_0_r; now split|].
      cbn [forallb] in H. apply andb_true_iff in H. destruct H as [R H]. replace (k + Z.of_nat (S i)) with (k + 1 + Z.of_nat i) by lia.
      exact (IH H (k + 1) r R i p N).
  Qed.
  Lemma now_sound k vs : Forall (vector_sound k) vs -> forall p, In p (now_of vs) -> row_ok M (fst p) = true /\ sound k (snd p).
  Proof.
    unfold now_of. intros H p K. apply in_flat_map in K. destruct K as (v & V & K). rewrite Forall_forall in H. specialize (H v V O).
    destruct (since v); [destruct (span v); [destruct K|]|destruct K]. destruct K as [<-|[]]. cbn [Z.of_nat] in H. rewrite !Z.add_0_r in H.
    destruct (steps v) as [|q l]; [|now apply H]. cbn [hd off fst snd]. split; [apply zero_ok|exact (sound_layers [] eq_refl k zero)].
  Qed.
  Lemma later_sound k vs : Forall (vector_sound k) vs -> Forall (vector_sound (k + 1)) (later vs).
  Proof.
    unfold later, vector_sound. induction 1 as [|v vs H _ IH]; cbn [map]; constructor; [|exact IH]. intros i p.
    destruct (since v) as [|n] eqn:E; cbn [since steps]; intros N.
    - destruct (H (S i) p) as [A B]; [destruct (steps v); [destruct i; discriminate|exact N]|]. split; [exact A|].
      replace (k + 1 + Z.of_nat 0 + Z.of_nat i) with (k + Z.of_nat 0 + Z.of_nat (S i)) by lia. exact B.
    - destruct (H i p N) as [A B]. split; [exact A|]. replace (k + 1 + Z.of_nat n) with (k + Z.of_nat (S n)) by lia. exact B.
  Qed.
  Lemma closed_reaches ticks : forall L k vs, 0 <= k -> Forall (vector_sound k) vs -> closed ticks vs L = true -> all_reach k L.
  Proof.
    induction ticks as [|n IH]; intros L k vs K0 V C l E e EE; cbn [closed] in C; destruct (items (entries L) []) as [|l' ee] eqn:X; try (now destruct E + discriminate).
    cbv zeta in C. rewrite <- X in C, E. rewrite !andb_true_iff in C. destruct C as [[A B] C]. set (L' := choose _ _) in *. pose proof (later_sound _ _ V) as V'. rewrite forallb_forall in A, B.
    specialize (A l E). rewrite forallb_forall in A.
    eapply (kept_reaches k (now_of (later vs)) L); [exact K0| |exact (IH _ (k + 1) _ ltac:(lia) V' C)|exact (A e EE)|].
    - intros p P. exact (now_sound _ _ V' p P).
    - change (@nil (list (Z * list (list nat)))) with (map (map (followed (now_of (later vs)) L)) []) in B. unfold followed in B. rewrite items_each in B.
      specialize (B _ (in_map _ _ _ E)). rewrite forallb_forall in B. exact (B _ (in_map _ _ _ EE)).
  Qed.
End Slots.

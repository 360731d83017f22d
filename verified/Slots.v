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
Lemma items_more {A} (t : search_tree A) : forall more x, In x more -> In x (items t more).
Proof. induction t as [|l IL k y h IH]; cbn; [easy|]. intros more x H. apply IL. right. now apply IH. Qed.
Lemma seek_in {A} n (t : search_tree A) x : seek n t = Some x -> forall more, In x (items t more).
Proof.
  induction t as [|l IL k y h IH]; cbn [seek items]; [easy|]. destruct (Nat.eqb n k); [intros [= <-] more; apply items_more; now left|].
  destruct (Nat.ltb n k); intros H more; [now apply IL|]. apply items_more. right. now apply IH.
Qed.

Record node := Node { idle : nat; ended : bool; rated : Z; hold : load; edges : list (nat * load); better : list nat }.
Definition far := 2 ^ 62.
Fixpoint minus (xs ys : list Z) := match xs, ys with x :: xs, y :: ys => x - y :: minus xs ys | _, _ => [] end.
Lemma minus_map {A} (f g : A -> Z) l : minus (map f l) (map g l) = map (fun x => f x - g x) l.
Proof. induction l as [|x l IH]; cbn; [reflexivity|now rewrite IH]. Qed.
Fixpoint minimum (xs ys : list Z) :=
  match xs, ys with x :: xs, y :: ys => Z.min x y :: minimum xs ys | _, _ => [] end.
Lemma minimum_map {A} (f g : A -> Z) l : minimum (map f l) (map g l) = map (fun x => Z.min (f x) (g x)) l.
Proof. induction l as [|x l IH]; cbn; [reflexivity|now rewrite IH]. Qed.
Fixpoint place_in n ns := match ns with [] => [n] | x :: xs => if Nat.leb n x then n :: ns else x :: place_in n xs end.
Definition arrange ns := fold_right place_in [] ns.
Lemma place_perm n ns : Permutation (place_in n ns) (n :: ns).
Proof. induction ns as [|x ns IH]; cbn; [reflexivity|]. destruct (Nat.leb n x); [reflexivity|]. rewrite IH. apply perm_swap. Qed.
Lemma arrange_perm ns : Permutation (arrange ns) ns.
Proof. induction ns as [|x ns IH]; cbn; [reflexivity|]. rewrite place_perm. now constructor. Qed.

Section Slots.
  Variable I : instance.
  Variable o : objective.
  Variable scale target : Z.
  Variable strict : bool.  (* whether a batch must have work or a transfer *)
  Variable nodes : search_tree node.
  Variable names : search_tree (list (state * nat)).  (* which node stands for a state *)
  Variable hash : state -> nat.  (* any functions: they steer what is found, not what is proved *)
  Variable hashes : list nat -> nat.
  Let M := mach I.

  (* --- The graph ---------------------------------------------------------------------------------------------- *)
  Definition dead := Node 0 false 0 none [] [].
  Definition at_node n := match seek n nodes with Some x => x | None => dead end.
  Definition name s := match seek (hash s) names with None => None | Some l =>
    option_map snd (find (fun p => state_eqb (fst p) s) l) end.
  Definition as_good n n' := Nat.eqb n n' || existsb (Nat.eqb n) (better (at_node n')).
  Definition for_state n s := match name s with None => false | Some n' => as_good n n' end.
  Definition act_of l := ndec l + npre l + (nout l + nin l).
  Definition mostb l l' := (tok l <=? tok l') && (ptok l <=? ptok l') && (ndec l + npre l <=? ndec l' + npre l')
    && (blk l <=? blk l') && (hos l <=? hos l').
  Definition answers e l := mostb e l && (hybrid M || (ndec e <=? ndec l) && (npre e <=? npre l))
    && (negb strict || (act_of l <=? act_of e)).
  Definition node_ok x := (0 <=? rated x) && forallb (mostb none) (hold x :: map snd (edges x))
    && (negb (ended x) || forallb (fun n => ended (at_node n)) (idle x :: map fst (edges x)))
    && forallb (fun n => let y := at_node n in imp (ended x) (ended y) && (rated y <=? rated x) && mostb (hold y) (hold x)
         && as_good (idle y) (idle x)
         && forallb (fun e => existsb (fun e' => answers (snd e') (snd e) && as_good (fst e') (fst e)) (edges y)) (edges x))
       (better x).
  Definition name_ok p := let s := fst p in let x := at_node (snd p) in
    imp (some (over s)) (ended x) && (rated x <=? urate o s) && mostb (hold x) (held M s)
    && for_state (idle x) (norm true 1 s)
    && forallb (fun al => let s' := norm true 1 (next M 1 s (fst al)) in
         existsb (fun e => answers (snd e) (snd al) && for_state (fst e) s') (edges x)) (opts M s).
  Inductive stands : state -> nat -> Prop :=
  | by_name s n : name s = Some n -> stands s n
  | as_better s n n' : stands s n -> In n' (better (at_node n)) -> stands s n'.

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
  Lemma as_good_stands s n n' : as_good n' n = true -> stands s n -> stands s n'.
  Proof.
    unfold as_good. rewrite orb_true_iff, Nat.eqb_eq, existsb_exists. intros [->|(x & X & Y)] H; [exact H|].
    apply Nat.eqb_eq in Y as <-. eapply as_better; eauto.
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
    /\ rated (at_node n) <= urate o s /\ most (hold (at_node n)) (held M s) /\ stands (norm true 1 s) (idle (at_node n))
    /\ forall a, local M 0 s a -> fitsb M (load_of M s a) = true -> exists e, In e (edges (at_node n))
       /\ Answers (snd e) (load_of M s a) /\ stands (norm true 1 (next M 1 s a)) (fst e).
  Proof.
    induction 1 as [s n H|s n n' H (A & B & C & D & E) K].
    - apply named_ok in H. unfold name_ok in H. cbn [fst snd] in H. rewrite !andb_true_iff, mostb_iff, Z.leb_le in H.
      destruct H as [[[[A B] C] D] E].
      split; [intros X; rewrite X in A; exact A|]. split; [exact B|]. split; [exact C|]. split; [now apply for_state_stands|].
      intros a L F. rewrite forallb_forall in E. specialize (E _ (in_opts M (local_iff M) _ _ L F)). cbn [fst snd] in E.
        apply existsb_exists in E. destruct E as (e & X & Y). apply andb_true_iff in Y. destruct Y as [Y Z]. exists e.
        split; [exact X|]. split; [now apply answers_iff|now apply for_state_stands].
    - pose proof (at_node_ok n) as X. unfold node_ok in X. rewrite !andb_true_iff in X. destruct X as [_ X].
      rewrite forallb_forall in X. specialize (X n' K). cbv zeta in X. rewrite !andb_true_iff, mostb_iff, Z.leb_le in X.
      destruct X as [[[[X1 X2] X3] X4] X5]. 
      split; [intros Y; rewrite (A Y) in X1; exact X1|]. split; [lia|]. split; [eapply most_trans; eauto|].
      split; [eapply as_good_stands; eauto|]. intros a L F. destruct (E a L F) as (e & P & Q & R). rewrite forallb_forall in X5. specialize (X5 e P).
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
    destruct X as [[[A [B C]] D] _].
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

  (* --- What prices of slots are worth ------------------------------------------------------------------------- *)
  Definition pot := (search_tree Z * Z)%type.
  Definition val (p : pot) n := match seek n (fst p) with Some v => v | None => 0 end.
  Definition value_at r (p : pot) x := if ended x then 0 else scale * rated x +
    fold_right (fun e m => Z.min (pay r (snd e) + val p (fst e)) m) (pay r (hold x) + val p (idle x)) (edges x).
  Definition beyond : pot := (Tip, 0).
  Fixpoint layers_of rows : list pot := match rows with [] => [] | r :: rows => let more := layers_of rows in
    let p := hd beyond more in (each_of (value_at r p) nodes, supply M r + snd p) :: more end.
  Definition sound (p : pot) := forall now ss nn bs zz d, run I now ss bs zz d -> Forall R11 zz -> good ss -> room I ss ->
    Forall2 stands (map (norm true now) ss) nn -> sum (val p) nn - snd p <= scale * meter I o now ss bs.
  Lemma val_layer r p n w : val (each_of (value_at r p) nodes, w) n = match seek n nodes with
    | Some x => value_at r p x | None => 0 end.
  Proof. unfold val. cbn [fst]. rewrite seek_each. now destruct (seek n nodes). Qed.
  Lemma layers_facts rows : forallb (row_ok M) rows = true -> forall n, 0 <= val (hd beyond (layers_of rows)) n
    /\ (ended (at_node n) = true -> val (hd beyond (layers_of rows)) n = 0).
  Proof.
    induction rows as [|r rows IH]; cbn [layers_of hd forallb]; intros H n; [split; [unfold val; cbn; lia|reflexivity]|].
    apply andb_true_iff in H. destruct H as [R H]. specialize (IH H). rewrite val_layer. set (p := hd beyond (layers_of rows)) in *.
    destruct (node_facts n) as (A & B & C & _). unfold at_node in *. destruct (seek n nodes) as [x|]; [|split; [lia|easy]].
    unfold value_at. split; [|intros ->; reflexivity]. destruct (ended x); [lia|].
    assert (0 <= fold_right (fun e m => Z.min (pay r (snd e) + val p (fst e)) m) (pay r (hold x) + val p (idle x)) (edges x)); [|nia].
    induction (edges x) as [|e es IE]; cbn [fold_right].
    - pose proof (pay_nonneg I r (hold x) R B). destruct (IH (idle x)). lia.
    - pose proof (pay_nonneg I r (snd e) R (C e (or_introl eq_refl))). destruct (IH (fst e)).
      specialize (IE (fun e K => C e (or_intror K))). lia.
  Qed.
  Lemma worth_steps rows r n : forallb (row_ok M) (r :: rows) = true -> let p := hd beyond (layers_of (r :: rows)) in
    let p' := hd beyond (layers_of rows) in
    val p n <= scale * rated (at_node n) + pay r (hold (at_node n)) + val p' (idle (at_node n))
    /\ forall e, edge_of n e -> val p n <= scale * rated (at_node n) + pay r (snd e) + val p' (fst e).
  Proof.
    cbn [layers_of hd forallb]. rewrite andb_true_iff. intros [R H]. rewrite val_layer. pose proof (layers_facts rows H) as V.
    set (p := hd beyond (layers_of rows)) in *. destruct (node_facts n) as (A & B & C & D). unfold edge_of, at_node in *.
    pose proof (pay_nonneg I r _ R B) as Y1. destruct (seek n nodes) as [x|]; [|cbn in *; destruct (V 0%nat); split; [nia|intros e []]].
    unfold value_at. destruct (ended x).
    - split; [destruct (V (idle x)); nia|]. intros e E. pose proof (pay_nonneg I r _ R (C e E)). destruct (V (fst e)). nia.
    - clear - A. induction (edges x) as [|f es [I1 I2]]; cbn [fold_right]; [split; [lia|intros e []]|]. split; [lia|].
      intros e [->|E]; [lia|]. specialize (I2 e E). lia.
  Qed.
  Lemma rated_le ss nn : Forall2 stands ss nn -> sum (fun n => rated (at_node n)) nn <= sum (urate o) ss.
  Proof.
    unfold sum. induction 1 as [|s n ss nn S _ IH]; cbn [fold_right]; [lia|]. destruct (stands_facts _ _ S) as (_ & H & _). lia.
  Qed.
  Lemma holds_le ss nn : Forall2 stands ss nn -> most (holds nn) (all_held M ss).
  Proof.
    induction 1 as [|s n ss nn S _ IH]; cbn [holds all_held fold_right]; [apply most_refl|].
    destruct (stands_facts _ _ S) as (_ & _ & H & _). now apply most_plus.
  Qed.
  Lemma idles ss nn : Forall2 stands ss nn -> Forall2 stands (map (norm true 1) ss) (map (fun n => idle (at_node n)) nn).
  Proof. induction 1 as [|s n ss nn S _ IH]; cbn; constructor; [|exact IH]. now destruct (stands_facts _ _ S) as (_ & _ & _ & H & _). Qed.
  Lemma pay_taken r ee : pay r (taken ee) = sum (fun e => pay r (snd e)) ee.
  Proof. unfold sum. induction ee as [|e ee IH]; cbn [taken fold_right]; [unfold pay; cbn; ring|]. rewrite pay_plus, <- IH. reflexivity. Qed.
  Lemma pay_holds r nn : pay r (holds nn) = sum (fun n => pay r (hold (at_node n))) nn.
  Proof. unfold sum. induction nn as [|n nn IH]; cbn [holds fold_right]; [unfold pay; cbn; ring|]. rewrite pay_plus, <- IH. reflexivity. Qed.
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
  Lemma none_fits ss : room I ss -> fitsb M none = true.
  Proof.
    apply fits_most. clear - block_ok. induction ss as [|s ss IH]; [apply most_refl|].
    change (most none (plus (held M s) (all_held M ss))). rewrite <- (plus_none none) at 1.
    apply most_plus; [now apply held_nonneg|exact IH].
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
  Lemma sound_layers rows : forallb (row_ok M) rows = true -> sound (hd beyond (layers_of rows)).
  Proof.
    induction rows as [|r rows IH]; intros H now ss nn bs zz d R F G RM S.
    - cbn [layers_of hd]. assert (sum (val beyond) nn = 0) as -> by (clear; unfold sum; induction nn; cbn; auto).
      pose proof (meter_nonneg _ _ _ _ _ R G). cbn. nia.
    - pose proof (fun n => worth_steps rows r n H) as W. cbv zeta in W. pose proof (layers_facts (r :: rows) H) as V.
      pose proof H as H'. cbn [forallb] in H'. apply andb_true_iff in H'. destruct H' as [RO H']. specialize (IH H').
      set (p := hd beyond (layers_of (r :: rows))) in *. set (p' := hd beyond (layers_of rows)) in *.
      assert (snd p = supply M r + snd p') as SP by reflexivity.
      pose proof (rated_le _ _ S) as RL. pose proof (urate_le o (map (norm true now) ss)) as UL. rewrite rate_norm in UL.
      pose proof (Z.mul_le_mono_nonneg_l _ _ _ scale_ok (Z.le_trans _ _ _ RL UL)) as SL.
      destruct (run_cases _ _ _ _ _ R G RM) as [[-> Q]|[[R' E]|(aa & bs' & d' & L & J & R' & G' & RM' & E)]].
      + pose proof (all_end _ _ _ F S) as DN. rewrite forallb_forall in DN. assert (0 <= snd p) as Q2.
        { pose proof (none_fits _ RM) as Z0. clear - H Z0. unfold p. clear p. induction (r :: rows) as [|x xs IX]; cbn [layers_of hd snd]; [cbn; lia|]. cbn [forallb] in H.
          apply andb_true_iff in H. destruct H as [A B]. specialize (IX B). pose proof (supply_nonneg I x A Z0) as SN. fold M in SN. lia. }
        pose proof (Z.mul_nonneg_nonneg _ _ scale_ok Q).
        assert (sum (val p) nn = 0); [|lia]. clear - DN V. unfold sum. induction nn as [|n nn IN]; cbn [fold_right]; [reflexivity|].
        rewrite IN by (intros; apply DN; now right). destruct (V n) as [_ ->]; [reflexivity|]. apply DN. now left.
      + rewrite E. pose proof (idles _ _ S) as S'. rewrite <- map_wait in S'. specialize (IH _ _ _ _ _ _ R' F G RM S').
        assert (pay r (holds nn) <= supply M r) as PL.
        { apply pay_le; [exact RO|]. eapply fits_most; [apply (holds_le _ _ S)|]. apply (room_norm I true now ss RM). }
        rewrite pay_holds in PL.
        assert (sum (val p) nn <= scale * sum (fun n => rated (at_node n)) nn + sum (fun n => pay r (hold (at_node n))) nn
          + sum (val p') (map (fun n => idle (at_node n)) nn)) as X.
        { clear - W. unfold sum. induction nn as [|n nn IN]; cbn [fold_right map]; [lia|]. destruct (W n) as [A _]. lia. }
        lia.
      + rewrite E. pose proof (locals_norm true _ _ _ _ L) as L0. pose proof (joint_fits I _ J) as F0.
        destruct (batch_answered _ _ L0 _ S) as (ee & A & B & C); [now rewrite total_norm|]. rewrite total_norm in B.
        rewrite <- nexts_norm in C by lia. specialize (IH _ _ _ _ _ _ R' F G' RM' C).
        assert (pay r (taken ee) <= supply M r) as PL.
        { apply pay_le; [exact RO|]. eapply fits_most; [apply B|exact F0]. }
        rewrite pay_taken in PL.
        assert (sum (val p) nn <= scale * sum (fun n => rated (at_node n)) nn + sum (fun e => pay r (snd e)) ee
          + sum (val p') (map fst ee)) as X.
        { clear - W A. unfold sum. induction A as [|n e nn ee IE A IN]; cbn [fold_right map]; [lia|].
          destruct (W n) as [_ Y]. specialize (Y e IE). lia. }
        lia.
  Qed.
  (* --- Closed sets, layer by layer ---------------------------------------------------------------------------- *)
  Variable steer : list nat -> list nat.  (* any function: to nodes that are as good *)
  Definition layer := search_tree (list (list nat * Z)).
  Definition found (L : layer) nn := match seek (hashes nn) L with None => None | Some l =>
    option_map snd (find (fun e => list_eqb Nat.eqb (fst e) nn) l) end.
  Fixpoint all_as_good nn' nn := match nn', nn with
    | [], [] => true | n' :: nn', n :: nn => as_good n' n && all_as_good nn' nn | _, _ => false end.
  Definition settled (ps : list pot) L nn b := (target <=? b) || existsb (fun p => target <=? b + (sum (val p) nn - snd p)) ps
    || let nn' := steer nn in all_as_good nn' nn && match found L (arrange nn') with Some b' => b' <=? b | None => false end.
  Definition rate_of nn := match o with Makespan => b2z (existsb (fun n => negb (ended (at_node n))) nn)
    | _ => sum (fun n => rated (at_node n)) nn end.
  (* Edges for all requests, one by one; a branch ends where a limit is exceeded, or what is to come is worth enough. *)
  Fixpoint each (f : load -> list nat -> bool) (oo : list (list ((nat * load) * list Z))) l nn slack {struct oo} := match oo with
    | [] => f l nn
    | os :: oo => forallb (fun x => let l := plus l (snd (fst x)) in
        if fitsb M l then
          let slack := minus slack (snd x) in
          if existsb (fun y => y <=? 0) slack then true else each f oo l (fst (fst x) :: nn) slack
        else true) os
    end.
  Definition lowest p n := fold_right (fun e x => Z.min (val p (fst e)) x) far (edges (at_node n)).
  Definition options ps n :=
    let tried := map (fun e => (e, map (fun p => val p (fst e)) ps)) (edges (at_node n)) in
    let low := fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps) tried in
    (low, map (fun x => (fst x, minus (snd x) low)) tried).
  Definition slack_of (ps : list pot) (b : Z) (chosen : list (list Z * list ((nat * load) * list Z))) :=
    fold_right (fun c x => minus x (fst c)) (map (fun p => target + snd p - b) ps) chosen.
  Definition item_ok ps L (e : list nat * Z) := let nn := fst e in let b := snd e + scale * rate_of nn in
    (negb (forallb (fun n => ended (at_node n)) nn) || (target <=? snd e))
    && settled ps L (map (fun n => idle (at_node n)) nn) b
    && let chosen := map (options ps) nn in
       each (fun l nn => negb (usable l) || settled [] L (arrange nn) b) (map snd chosen) none [] (slack_of ps b chosen).
  Record vector := Vector { since : nat; span : nat; layers : list pot }.  (* in use from a tick on, for so many *)
  Definition now_of vs := flat_map (fun v => match since v, span v with O, S _ => [hd beyond (layers v)] | _, _ => [] end) vs.
  Definition later vs := map (fun v => match since v with
    | S n => Vector n (span v) (layers v) | O => Vector 0 (pred (span v)) (tl (layers v)) end) vs.
  Fixpoint closed vs (LL : list layer) := match LL with [] => true | L :: LL => let vs := later vs in
    let ps := now_of vs in forallb (forallb (item_ok ps (hd Tip LL))) (items L []) && closed vs LL end.

  Definition reaches (e : list nat * Z) := forall now ss nn bs zz d, run I now ss bs zz d -> Forall R11 zz -> good ss ->
    room I ss -> Forall2 stands (map (norm true now) ss) nn -> Permutation nn (fst e) ->
    target <= snd e + scale * meter I o now ss bs.
  Definition all_reach (L : layer) := forall l, In l (items L []) -> forall e, In e l -> reaches e.
  Lemma flipped {A B} (P : A -> B -> Prop) l k : Forall2 P l k -> Forall2 (fun b a => P a b) k l.
  Proof. induction 1; constructor; assumption. Qed.
  Lemma sum_perm {A} (f : A -> Z) xs ys : Permutation xs ys -> sum f xs = sum f ys.
  Proof. unfold sum. induction 1; cbn [fold_right]; lia. Qed.
  Lemma all_as_good_stands ss nn : Forall2 stands ss nn -> forall nn', all_as_good nn' nn = true -> Forall2 stands ss nn'.
  Proof.
    induction 1 as [|s n ss nn S _ IH]; intros [|n' nn']; cbn; try easy. rewrite andb_true_iff. intros [A B].
    constructor; [eapply as_good_stands; eauto|now apply IH].
  Qed.
  Lemma list_eqb_nat xs ys : list_eqb Nat.eqb xs ys = true -> xs = ys.
  Proof. apply list_eqb_eq. intros a b. apply Nat.eqb_eq. Qed.
  Lemma settled_reaches ps L nn b : (forall p, In p ps -> sound p) -> all_reach L -> settled ps L nn b = true -> reaches (nn, b).
  Proof.
    intros P A H now ss mm bs zz d R F G RM S PM. cbn [fst snd] in *. pose proof (meter_nonneg _ _ _ _ _ R G) as N.
    pose proof (Z.mul_nonneg_nonneg _ _ scale_ok N). unfold settled in H. rewrite !orb_true_iff in H. destruct H as [[H|H]|H].
    - apply Z.leb_le in H. lia.
    - apply existsb_exists in H. destruct H as (p & K & H). apply Z.leb_le in H. pose proof (P p K _ _ _ _ _ _ R F G RM S) as X.
      rewrite (sum_perm (val p) _ _ PM) in X. lia.
    - cbv zeta in H. apply andb_true_iff in H. destruct H as [K H]. unfold found in H.
      destruct (seek _ L) as [l|] eqn:E; [|discriminate]. destruct (find _ l) as [[kk b']|] eqn:Q; [|discriminate].
      cbn [option_map snd] in H. apply Z.leb_le in H. apply find_some in Q. destruct Q as [Q1 Q2]. apply list_eqb_nat in Q2.
      cbn [fst] in Q2. destruct (Permutation_Forall2 PM (flipped _ _ _ S)) as (ss2 & PS & S2).
      apply flipped in S2. pose proof (all_as_good_stands _ _ S2 _ K) as S3.
      destruct (Permutation_Forall2 (Permutation_sym PS) S3) as (mm2 & PM2 & S4).
      pose proof (A l (seek_in _ _ _ E []) _ Q1 _ _ _ _ _ _ R F G RM S4) as X. cbn [fst snd] in X. subst kk.
      rewrite arrange_perm in X. specialize (X (Permutation_sym PM2)). lia.
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
  Definition over_least p n (e : nat * load) := val p (fst e) - lowest p n.
  Fixpoint excess p nn (ee : list (nat * load)) := match nn, ee with
    | n :: nn, e :: ee => over_least p n e + excess p nn ee | _, _ => 0 end.
  Lemma excess_is p nn ee : Forall2 edge_of nn ee -> excess p nn ee = sum (val p) (map fst ee) - sum (lowest p) nn.
  Proof. unfold sum, over_least. induction 1 as [|n e nn ee E _ IH]; cbn [excess map fold_right]; [reflexivity|]. unfold over_least. lia. Qed.
  Lemma excess_nonneg p nn ee : Forall2 edge_of nn ee -> 0 <= excess p nn ee.
  Proof.
    induction 1 as [|n e nn ee E _ IH]; cbn [excess]; [lia|]. assert (lowest p n <= val p (fst e)); [|unfold over_least; lia].
    clear - E. unfold lowest, edge_of in *. induction (edges (at_node n)) as [|f l IL]; [destruct E|]. cbn [fold_right].
    destruct E as [->|E]; [lia|]. specialize (IL E). lia.
  Qed.
  Lemma options_are ps n : options ps n = (map (fun p => lowest p n) ps, map (fun e => (e, map (fun p => over_least p n e) ps)) (edges (at_node n))).
  Proof.
    unfold options, over_least. cbv zeta.
    assert (forall es, fold_right (fun x low => minimum (snd x) low) (map (fun _ => far) ps)
      (map (fun e : nat * load => (e, map (fun p => val p (fst e)) ps)) es)
      = map (fun p => fold_right (fun e x => Z.min (val p (fst e)) x) far es) ps) as E.
    { induction es as [|e es IH]; cbn [map fold_right snd]; [reflexivity|]. rewrite IH. apply minimum_map. }
    rewrite E. f_equal. rewrite map_map. apply map_ext. intros e. cbn [fst snd]. now rewrite minus_map.
  Qed.
  Lemma each_sound f ps nn ee : Forall2 edge_of nn ee -> forall l tt (slack : pot -> Z), most none l ->
    each f (map snd (map (options ps) nn)) l tt (map slack ps) = true -> fitsb M (plus l (taken ee)) = true ->
    f (plus l (taken ee)) (rev (map fst ee) ++ tt) = true \/ exists p, In p ps /\ slack p <= excess p nn ee.
  Proof.
    induction 1 as [|n e nn ee E EE IH]; intros l tt slack N H F.
    - left. cbn [map each taken fold_right rev app] in *. rewrite plus_comm, plus_none in *. exact H.
    - cbn [taken fold_right map each excess] in *. fold (taken ee) in *. destruct (node_facts n) as (_ & _ & N1 & _).
      specialize (N1 e E). pose proof (edges_nonneg _ _ EE) as N2.
      assert (fitsb M (plus l (snd e)) = true) as F1.
      { eapply fits_most; [|exact F]. rewrite <- plus_assoc. now apply most_none_r. }
      rewrite forallb_forall in H. rewrite options_are in H. cbn [snd] in H. specialize (H _ (in_map _ _ _ E)).
      cbn [fst snd] in H. rewrite F1 in H. rewrite minus_map in H. cbv zeta in H. destruct (existsb _ _) eqn:X in H.
      + right. apply existsb_exists in X. destruct X as (y & Y & X). apply in_map_iff in Y. destruct Y as (p & <- & Y).
        exists p. split; [exact Y|]. apply Z.leb_le in X. pose proof (excess_nonneg p nn ee EE). lia.
      + rewrite <- plus_assoc in F. cbn [rev]. rewrite <- plus_assoc, <- app_assoc.
        assert (most none (plus l (snd e))) as N3 by (rewrite <- (plus_none none); now apply most_plus).
        destruct (IH _ (fst e :: tt) (fun p => slack p - over_least p n e) N3 H F) as [G|(p & G & K)]; [left; exact G|].
        right. exists p. split; [exact G|]. lia.
  Qed.
  Lemma slack_is ps b nn : slack_of ps b (map (options ps) nn) = map (fun p => target + snd p - b - sum (lowest p) nn) ps.
  Proof.
    unfold slack_of. induction nn as [|n nn IH]; cbn [map fold_right sum].
    - apply map_ext. intros p. lia.
    - rewrite IH, options_are. cbn [fst]. rewrite minus_map. apply map_ext. intros p. unfold sum. lia.
  Qed.
  Lemma kept_reaches ps L e : (forall p, In p ps -> sound p) -> all_reach L -> item_ok ps L e = true -> reaches e.
  Proof.
    intros P A K now ss nn bs zz d R F G RM S PM. unfold item_ok in K. cbv zeta in K. rewrite !andb_true_iff, orb_true_iff in K.
    destruct K as [[K1 K2] K3]. pose proof (rate_of_le _ _ S) as RL. rewrite rate_norm, (rate_of_perm _ _ PM) in RL.
    apply (Z.mul_le_mono_nonneg_l _ _ _ scale_ok) in RL.
    destruct (run_cases _ _ _ _ _ R G RM) as [[-> Q]|[[R' E]|(aa & bs' & d' & L' & J & R' & G' & RM' & E)]].
    - pose proof (ended_perm _ _ PM (all_end _ _ _ F S)) as DN. rewrite DN in K1. destruct K1 as [K1|K1]; [discriminate|].
      apply Z.leb_le in K1. pose proof (Z.mul_nonneg_nonneg _ _ scale_ok Q). lia.
    - rewrite E. pose proof (idles _ _ S) as S'. rewrite <- map_wait in S'.
      pose proof (settled_reaches _ _ _ _ P A K2 _ _ _ _ _ _ R' F G RM S' (Permutation_map _ PM)) as X. cbn [fst snd] in X. lia.
    - rewrite E. pose proof (locals_norm true _ _ _ _ L') as L0. pose proof (joint_fits I _ J) as F0.
      destruct (batch_answered _ _ L0 _ S) as (ee & B & C & D); [now rewrite total_norm|]. rewrite total_norm in C.
      rewrite <- nexts_norm in D by lia. destruct (Permutation_Forall2 PM B) as (ff & PE & B').
      rewrite (taken_perm _ _ PE) in C. pose proof (usable_sound _ _ _ _ L' J C) as U.
      rewrite slack_is in K3. assert (fitsb M (plus none (taken ff)) = true) as FF.
      { rewrite plus_none. eapply fits_most; [apply C|exact F0]. }
      destruct (each_sound _ _ _ _ B' none [] _ (most_refl none) K3 FF) as [X|(p & Y & X)].
      + rewrite plus_none, app_nil_r, U in X. cbn [negb orb] in X.
        assert (Permutation (map fst ee) (arrange (rev (map fst ff)))) as PF.
        { rewrite arrange_perm, <- Permutation_rev. now apply Permutation_map. }
        pose proof (settled_reaches [] L _ _ ltac:(intros p []) A X _ _ _ _ _ _ R' F G' RM' D PF) as Z. cbn [fst snd] in Z. lia.
      + rewrite (excess_is _ _ _ B') in X. pose proof (P p Y _ _ _ _ _ _ R' F G' RM' D) as Z.
        rewrite (sum_perm (val p) _ _ (Permutation_map fst PE)) in Z. lia.
  Qed.
  Definition vector_sound v := forall p, In p (layers v) -> sound p.
  Lemma beyond_sound : sound beyond. Proof. exact (sound_layers [] eq_refl). Qed.
  Lemma now_sound vs : Forall vector_sound vs -> forall p, In p (now_of vs) -> sound p.
  Proof.
    unfold now_of. intros H p K. apply in_flat_map in K. destruct K as (v & V & K). rewrite Forall_forall in H. specialize (H v V).
    destruct (since v); [destruct (span v); [destruct K|]|destruct K]. destruct K as [<-|[]].
    unfold vector_sound in H. destruct (layers v) as [|q l]; [apply beyond_sound|apply H; now left].
  Qed.
  Lemma later_sound vs : Forall vector_sound vs -> Forall vector_sound (later vs).
  Proof.
    unfold later, vector_sound. induction 1 as [|v vs H _ IH]; cbn; constructor; [|exact IH]. intros p. destruct (since v); [|apply H].
    intros K. apply H. cbn in K. destruct (layers v); [destruct K|now right].
  Qed.
  Lemma closed_reaches LL : forall vs, Forall vector_sound vs -> closed vs LL = true -> all_reach (hd Tip LL).
  Proof.
    induction LL as [|L LL IH]; intros vs V; cbn [closed hd]; [intros _ l []|]. cbv zeta. rewrite andb_true_iff. intros [A B] l K e E.
    pose proof (later_sound _ V) as V'. rewrite forallb_forall in A. specialize (A l K). rewrite forallb_forall in A.
    exact (kept_reaches _ _ _ (now_sound _ V') (IH _ V' B) (A e E)).
  Qed.
End Slots.

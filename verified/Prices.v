(* Prices of slots: what states are worth by weak duality, if every batch lasts one tick.

   In each slot, blocks, host tokens, tokens and requests have prices, never negative. A schedule that had to pay them
   would cost no less than one that obeys the limits and gets the price of each limit back. What one request costs at the
   least from a state on, with its prices, is a number in a table; an entry is right if no option, nor waiting, leads to
   less (`entry_ok`), and what has no entry counts 0. So a joint state is worth the sum of its entries, less the price of
   all limits of the slots to come (`worth_run`). *)
Require Import ZArith List Bool Lia Permutation FMapPositive Spec Referee Model Check.
Import ListNotations.
Open Scope Z_scope.

Record row := Row { pblk : Z; phos : Z; ptk : Z; ppt : Z; prq : Z }.  (* prices of a slot, in units of 1/scale *)
Definition zero := Row 0 0 0 0 0.
Definition pay r l := pblk r * blk l + phos r * hos l + ptk r * tok l + ppt r * ptok l + prq r * (ndec l + npre l).
Definition lim (o : option Z) := match o with None => 0 | Some x => x end.
Definition supply M r := pblk r * lim (option_map (fun m => m / block M) (memory M)) + phos r * lim (host_memory M)
  + ptk r * lim (batch_tokens M) + ppt r * lim (prefill_tokens M) + prq r * lim (batch_requests M).
Definition priced p (l : option Z) := (0 <=? p) && (some l || (p =? 0)).
Definition row_ok M r := priced (pblk r) (memory M) && priced (phos r) (host_memory M)
  && priced (ptk r) (batch_tokens M)
  && priced (ppt r) (prefill_tokens M) && priced (prq r) (batch_requests M).
Definition held M s := Load 0 0 0 0 0 0 0 0 0 0 0 0 (ceil_div (Z.max 0 (device s)) (block M)) (Z.max 0 (host s)).
Definition all_held M ss := fold_right (fun s l => plus (held M s) l) none ss.
Definition unit_cost fs := forallb (fun f => (1 <=? divisor f) && (0 <=? busy f) && (0 <=? any_decode f)
  && (0 <=? any_prefill f)
  && (busy f + any_decode f + any_prefill f <=? divisor f)
  && forallb (Z.eqb 0) [tokens f; above f; generated f; decode_requests f; prefill_requests f; decode_kv f;
    prefill_kv f; prefill_pairs f;
       swap_out_tokens f; swap_in_tokens f; swap_outs f; swap_ins f]) fs.
Fixpoint insert (leb : state -> state -> bool) s ss := match ss with [] => [s] | x :: xs => if leb s x then s :: ss else
  x :: insert leb s xs end.
Definition sort leb ss := fold_right (insert leb) [] ss.
Lemma insert_perm leb s ss : Permutation (insert leb s ss) (s :: ss).
Proof. induction ss as [|x ss IH]; simpl; [reflexivity|]. destruct (leb s x); [reflexivity|]. rewrite IH.
    apply perm_swap. Qed.
Lemma sort_perm leb ss : Permutation (sort leb ss) ss.
Proof. induction ss as [|x ss IH]; simpl; [reflexivity|]. rewrite insert_perm. now constructor. Qed.

Section Prices.
  Variable I : instance.
  Variable o : objective.
  Variable scale : Z.
  Variable rows : list row.
  Variable hash : Z -> list state -> positive.  (* any functions: they steer what is found, not what is proved *)
  Variable table : list entry.  (* what a request costs at the least *)
  Let M := mach I.
  Let tm := build hash table.
  Definition steady := timed o && unit_cost (cost I).
  Definition slot k := nth (Z.to_nat k) rows zero.
  Definition left k := sum (supply M) (skipn (Z.to_nat k) rows).
  Definition tick k := k + 1.
  Definition P tm k s := match pick hash tm k [s] with Some v => v | None => 0 end.
  Definition urate s := match o with Flow | Weighted | Ttft => if0 (negb (some (end_of o s))) (weigh o s) | _ => 0 end.
  Definition worth tm k ss := sum (P tm k) ss - left k.
  Definition entry_ok e := match states e with
    | [s] => (0 <=? clock e) && (0 <=? mark_of e) && (negb (some (over s)) || (mark_of e =? 0)) &&
        let r := slot (clock e) in let k := tick (clock e) in let c := mark_of e - scale * urate s in
        (c <=? pay r (held M s) + P tm k (norm true 1 s))
        && forallb (fun al => c <=? pay r (snd al) + P tm k (norm true 1 (next M 1 s (fst al)))) (opts M s)
    | _ => false end.
  (* --- prices ----------------------------------------------------------------------------------------------- *)
  Lemma unit_1 l : unit_cost (cost I) = true -> lasts (cost I) l = 1.
  Proof.
    unfold unit_cost, lasts. induction (cost I) as [|f fs IH]; cbn [forallb fold_right]; [reflexivity|].
    rewrite !andb_true_iff, !Z.leb_le, !Z.eqb_eq. intros [H HF]. rewrite (IH HF). decompose [and] H.
    assert (value_of f l <= divisor f) as V.
    { unfold value_of. repeat match goal with H : 0 = _ |- _ => rewrite <- H; clear H end.
      destruct (0 <? ndec l + npre l), (0 <? ndec l), (0 <? npre l); cbn [b2z]; lia. }
    assert (ceil_div (value_of f l) (divisor f) <= 1); [|lia]. unfold ceil_div.
    assert (-1 <= (- value_of f l) / divisor f); [|lia]. apply Z.div_le_lower_bound; lia.
  Qed.
  Lemma pay_plus r x y : pay r (plus x y) = pay r x + pay r y.
  Proof. unfold pay. cbn [plus blk hos tok ptok ndec npre]. ring. Qed.
  Lemma priced_le p x l : priced p l = true -> withinb x l = true -> p * x <= p * lim l.
  Proof.
    unfold priced. rewrite andb_true_iff, orb_true_iff, Z.leb_le, Z.eqb_eq.
      destruct l as [y|]; cbn; rewrite ?Z.leb_le; intros [A B] W; [nia|].
    destruct B as [| ->]; [discriminate|lia].
  Qed.
  Lemma pay_le r l : row_ok M r = true -> fitsb M l = true -> pay r l <= supply M r.
  Proof.
    unfold row_ok, fitsb. rewrite !andb_true_iff. intros [[[[A B] C] D] E] [[[[F G] H] J] K]. unfold pay, supply.
    pose proof (priced_le (pblk r) (blk l) (option_map (fun m => m / block M) (memory M))) as X.
    assert (priced (pblk r) (option_map (fun m => m / block M) (memory M)) = true) as Y by (destruct (memory M);
      exact A).
    specialize (X Y J). pose proof (priced_le _ _ _ B K). pose proof (priced_le _ _ _ C F).
      pose proof (priced_le _ _ _ D G). pose proof (priced_le _ _ _ E H). lia.
  Qed.
  Lemma pay_nonneg r l : row_ok M r = true -> most none l -> 0 <= pay r l.
  Proof.
    unfold row_ok, priced. rewrite !andb_true_iff, !Z.leb_le. intros H (A & B & C & D & E).
      cbn [none tok ptok ndec npre blk hos] in *. unfold pay.
    assert (0 <= pblk r * blk l /\ 0 <= phos r * hos l /\ 0 <= ptk r * tok l /\ 0 <= ppt r * ptok l
      /\ 0 <= prq r * (ndec l + npre l)); [|lia].
    decompose [and] H. repeat split; apply Z.mul_nonneg_nonneg; lia.
  Qed.
  Hypothesis rows_ok : forallb (row_ok M) rows = true.
  Hypothesis block_ok : 0 < block M.
  Hypothesis scale_ok : 0 <= scale.
  Lemma row_zero : row_ok M zero = true.
  Proof. unfold row_ok, priced. cbn. now rewrite !orb_true_r. Qed.
  Lemma slot_ok k : row_ok M (slot k) = true.
  Proof.
    unfold slot. destruct (nth_in_or_default (Z.to_nat k) rows zero) as [K|K]; [|rewrite K; apply row_zero].
    rewrite forallb_forall in rows_ok. now apply rows_ok.
  Qed.
  Lemma supply_nonneg r : row_ok M r = true -> fitsb M none = true -> 0 <= supply M r.
  Proof. intros A B. pose proof (pay_le r none A B). unfold pay in H. cbn in H. lia. Qed.
  Lemma left_step k : 0 <= k -> left k = supply M (slot k) + left (tick k).
  Proof.
    intros K. unfold left, slot, tick. assert (supply M zero = 0) as Z0 by (unfold supply; cbn; reflexivity).
    replace (Z.to_nat (k + 1)) with (S (Z.to_nat k)) by lia. generalize (Z.to_nat k) as n.
    clear - Z0. induction rows as [|x xs IH]; intros n.
    - rewrite !skipn_nil. destruct n; cbn; lia.
    - destruct n as [|n]; [reflexivity|]. cbn [skipn nth]. rewrite IH. reflexivity.
  Qed.
  Lemma left_nonneg k : fitsb M none = true -> 0 <= left k.
  Proof.
    intros F. unfold left. assert (forallb (row_ok M) (skipn (Z.to_nat k) rows) = true) as K.
    { apply forallb_forall. intros r K. rewrite forallb_forall in rows_ok. apply rows_ok.
      rewrite <- (firstn_skipn (Z.to_nat k) rows). apply in_or_app. now right. }
    induction (skipn _ rows) as [|r rs IH]; cbn [sum fold_right]; [lia|]. cbn [forallb] in K. apply andb_true_iff in K.
      destruct K as [A B].
    specialize (IH B). unfold sum in IH. pose proof (supply_nonneg r A F). lia.
  Qed.
  Lemma tick_nonneg k : 0 <= k -> 0 <= tick k. Proof. unfold tick. lia. Qed.

  (* --- what one request is worth ---------------------------------------------------------------------------- *)
  Hypothesis table_ok : forallb entry_ok table = true.
  Lemma P_cases k s : P tm k s = 0 \/ exists e, In e table /\ e = Entry k [s] (P tm k s) /\ entry_ok e = true.
  Proof.
    destruct (pick hash tm k [s]) as [v|] eqn:E; [right|left; unfold P; now rewrite E].
    exists (Entry k [s] v). replace (P tm k s) with v by (unfold P; now rewrite E). apply pick_in in E.
      split; [exact E|]. split; [reflexivity|].
    rewrite forallb_forall in table_ok. now apply table_ok.
  Qed.
  Lemma P_nonneg k s : 0 <= P tm k s.
  Proof.
    destruct (P_cases k s) as [->|(e & _ & -> & H)]; [lia|]. unfold entry_ok in H. cbn [states clock mark_of] in H.
    rewrite !andb_true_iff, !Z.leb_le in H. tauto.
  Qed.
  Lemma P_over k s : over s <> None -> P tm k s = 0.
  Proof.
    intros N. destruct (P_cases k s) as [->|(e & _ & -> & H)]; [reflexivity|]. unfold entry_ok in H.
      cbn [states clock mark_of] in H.
    rewrite !andb_true_iff, orb_true_iff, Z.eqb_eq in H. destruct H as [[[_ _] [H|H]] _]; [|exact H].
      destruct (over s); [discriminate|congruence].
  Qed.
  Definition fine s := 0 <= wt s.
  Lemma urate_nonneg s : fine s -> 0 <= urate s.
  Proof. unfold fine, urate, if0. destruct o; cbn; try lia; destruct (negb _); lia. Qed.
  Lemma held_nonneg s : most none (held M s).
  Proof.
    unfold most, held; cbn. pose proof (ceil_mono 0 (Z.max 0 (device s)) (block M) block_ok) as H. rewrite ceil_0 in H.
      fold M. lia.
  Qed.
  Lemma P_idle k s : fine s -> P tm k s <= scale * urate s + pay (slot k) (held M s) + P tm (tick k) (norm true 1 s).
  Proof.
    intros F. destruct (P_cases k s) as [->|(e & _ & E & H)].
    - pose proof (urate_nonneg s F). pose proof (pay_nonneg (slot k) (held M s) (slot_ok k) (held_nonneg s)).
      pose proof (P_nonneg (tick k) (norm true 1 s)). nia.
    - rewrite E in H. unfold entry_ok in H. cbn [states clock mark_of] in H. rewrite !andb_true_iff, !Z.leb_le in H.
      destruct H as [_ [H _]]. lia.
  Qed.
  Lemma P_act k s a : fine s -> local M 0 s a -> fitsb M (load_of M s a) = true ->
    P tm k s <= scale * urate s + pay (slot k) (load_of M s a) + P tm (tick k) (norm true 1 (next M 1 s a)).
  Proof.
    intros F L T. destruct (P_cases k s) as [->|(e & _ & E & H)].
    - pose proof (urate_nonneg s F). pose proof (pay_nonneg (slot k) (load_of M s a) (slot_ok k) (load_nonneg _ _ _ _
      block_ok L)).
      pose proof (P_nonneg (tick k) (norm true 1 (next M 1 s a))). nia.
    - rewrite E in H. unfold entry_ok in H. cbn [states clock mark_of] in H. rewrite !andb_true_iff in H.
      destruct H as [_ [_ H]].
      rewrite forallb_forall in H. specialize (H _ (in_opts M (local_iff M) _ _ L T)). cbn [fst snd] in H.
        apply Z.leb_le in H. lia.
  Qed.

  (* --- what a joint state is worth -------------------------------------------------------------------------- *)
  Definition good ss := Forall fine ss.
  Definition room ss := fitsb M (all_held M ss) = true.
  Lemma sum_idle k ss : good ss -> sum (P tm k) ss <= scale * sum urate ss + pay (slot k) (all_held M ss) + sum (P tm
    (tick k)) (map (norm true 1) ss).
  Proof.
    induction 1 as [|s ss F _ IH]; cbn [sum all_held fold_right map]; [unfold pay; cbn; lia|]. rewrite pay_plus.
      pose proof (P_idle k s F).
    unfold sum, all_held in IH. lia.
  Qed.
  Lemma sum_act k ss aa : Forall2 (local M 0) ss aa -> good ss -> fitsb M (total M ss aa) = true ->
    sum (P tm k) ss <= scale * sum urate ss + pay (slot k) (total M ss aa) + sum (P tm (tick k)) (map (norm true 1)
      (nexts M 1 ss aa)).
  Proof.
    induction 1 as [|s a ss aa L LL IH]; cbn [sum total fold_right map nexts]; [unfold pay; cbn; lia|]. intros G T.
      inversion G as [|x y F G2]. subst.
    rewrite pay_plus. pose proof (load_nonneg _ _ _ _ block_ok L). pose proof (total_nonneg _ _ _ _ block_ok LL).
    assert (fitsb M (load_of M s a) = true) as T1 by (eapply fits_most; [|exact T]; now apply most_none_r).
    assert (fitsb M (total M ss aa) = true) as T2 by (eapply fits_most; [|exact T]; now apply most_none_l).
    pose proof (P_act k s a F L T1). specialize (IH G2 T2). unfold sum in IH. lia.
  Qed.
  Lemma urate_le ss : sum urate ss <= rate o ss.
  Proof.
    unfold urate, rate. destruct o; try apply Z.le_refl; assert (sum (fun _ : state => 0) ss = 0) as
      -> by (induction ss; cbn; auto);
      [destruct (existsb _ ss); cbn; lia|lia].
  Qed.
  Lemma scaled ss : scale * sum urate ss <= scale * rate o ss.
  Proof. apply Z.mul_le_mono_nonneg_l; [exact scale_ok|apply urate_le]. Qed.
  Lemma worth_idle k ss : 0 <= k -> good ss -> room ss
    -> worth tm k ss <= scale * rate o ss + worth tm (tick k) (map (norm true 1) ss).
  Proof.
    intros K G R. unfold worth. rewrite (left_step k K). pose proof (sum_idle k ss G).
      pose proof (pay_le _ _ (slot_ok k) R). pose proof (scaled ss). lia.
  Qed.
  Lemma worth_act k ss aa : 0 <= k -> good ss -> Forall2 (local M 0) ss aa -> fitsb M (total M ss aa) = true ->
    worth tm k ss <= scale * rate o ss + worth tm (tick k) (map (norm true 1) (nexts M 1 ss aa)).
  Proof.
    intros K G L R. unfold worth. rewrite (left_step k K). pose proof (sum_act k ss aa L G R).
      pose proof (pay_le _ _ (slot_ok k) R). pose proof (scaled ss). lia.
  Qed.

  (* --- along a run ------------------------------------------------------------------------------------------ *)
  Lemma held_next t s a E : local M t s a -> most (held M (next M E s a)) (load_of M s a).
  Proof.
    intros L. pose proof (load_nonneg _ _ _ _ block_ok L) as N. destruct L as (_ & C & _ & _ & _ & _ & G).
      pose proof (m2_nonneg _ _ G) as N2.
    assert (0 <= work a) as W by (unfold R3 in C; lia).
    assert (0 <= h2 s a) as H by (unfold R10 in G; unfold h2; lia).
    assert (forall d h, d = m2 s a + work a \/ d = 0 -> h = h2 s a \/ h = 0 ->
      most (Load 0 0 0 0 0 0 0 0 0 0 0 0 (ceil_div (Z.max 0 d) (block M)) (Z.max 0 h)) (load_of M s a)) as X.
    { intros d h D K. unfold most in *. cbn [tok ptok ndec npre blk hos load_of none] in *.
      pose proof (ceil_mono (Z.max 0 d) (m2 s a + work a) (block M) block_ok). lia. }
    unfold held, next. destruct (Z.eqb_spec (work a) 0) as [Z|Z]; [cbn [device host]; apply X; [left; lia|now left]|].
    destruct (negb _); [cbn [device host]; apply X; [now left|now left]|].
      destruct (negb _); [cbn [device host]; apply X; [now left|now left]|].
    destruct (rest s) as [|[c e] r]; cbn [device host]; apply X; tauto.
  Qed.
  Lemma room_next t ss aa E : Forall2 (local M t) ss aa -> fitsb M (total M ss aa) = true -> room (nexts M E ss aa).
  Proof.
    intros L T. unfold room. eapply fits_most; [|exact T]. clear T.
      induction L as [|s a ss aa L _ IH]; cbn [all_held nexts total fold_right]; [apply most_refl|].
    apply most_plus; [eapply held_next; eauto|exact IH].
  Qed.
  Lemma good_next ss aa E : good ss -> good (nexts M E ss aa).
  Proof. intros G. revert aa. induction G as [|s ss F _ IH]; intros [|a aa]; cbn; constructor; [unfold fine;
    destruct (step_wt M s a E) as [-> _]; exact F|apply IH]. Qed.
  Lemma room_norm b t ss : room ss -> room (map (norm b t) ss).
  Proof. unfold room. assert (all_held M (map (norm b t) ss) = all_held M ss) as ->; [|easy].
    induction ss as [|s ss IH]; [reflexivity|]. cbn [map all_held fold_right]. unfold all_held in IH.
    now rewrite IH. Qed.
  Lemma good_norm b t ss : good ss -> good (map (norm b t) ss).
  Proof. induction 1; cbn; constructor; assumption. Qed.
  Lemma mark_some x : some (mark x) = some x. Proof. now destruct x. Qed.
  Lemma rate_norm b t ss : rate o (map (norm b t) ss) = rate o ss.
  Proof.
    unfold rate. destruct o; try reflexivity;
      try (induction ss as [|s ss IH]; cbn [map sum fold_right end_of norm first over weigh wt]; [reflexivity|];
        rewrite mark_some; unfold sum in IH; cbn [end_of weigh] in IH; now rewrite IH).
    f_equal. induction ss as [|s ss IH]; cbn [map existsb norm over]; [reflexivity|]. now rewrite mark_some, IH.
  Qed.
  Lemma fee_timed ss D : timed o = true -> fee o ss D = rate o ss * D. Proof. destruct o; easy. Qed.
  Lemma worth_wait n now ss : 0 <= now -> good ss -> room ss ->
    worth tm now (map (norm true now) ss) <= scale * (rate o ss * Z.of_nat n) + worth tm (now + Z.of_nat n)
      (map (norm true (now + Z.of_nat n)) ss).
  Proof.
    intros K G R. induction n as [|n IH]; [rewrite Z.add_0_r; lia|]. etransitivity; [exact IH|].
    replace (now + Z.of_nat (S n)) with (now + Z.of_nat n + 1) by lia. rewrite map_wait.
    pose proof (worth_idle (now + Z.of_nat n) (map (norm true (now + Z.of_nat n)) ss)) as X.
      rewrite rate_norm in X. unfold tick in X.
    specialize (X ltac:(lia) (good_norm _ _ _ G) (room_norm _ _ _ R)). lia.
  Qed.
  Lemma joint_fits l : joint M l -> fitsb M l = true.
  Proof. intros J. apply joint_iff in J. unfold jointb in J. rewrite !andb_true_iff in J. tauto. Qed.
  Lemma worth_run now ss bs zz d : steady = true -> run I now ss bs zz d -> 0 <= now -> Forall R11 zz -> good ss
    -> room ss ->
    worth tm now (map (norm true now) ss) <= scale * meter I o now ss bs.
  Proof.
    intros ST. pose proof ST as [TM U]%andb_true_iff.
      induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros N F G RM; cbn [meter].
    - unfold worth. assert (fitsb M none = true) as Z0.
      { eapply fits_most; [|exact RM]. clear - block_ok. induction ss as [|s ss IH]; [apply most_refl|]. cbn.
        rewrite <- (plus_none none). apply most_plus; [apply held_nonneg|exact IH]. }
      pose proof (left_nonneg now Z0). assert (sum (P tm now) (map (norm true now) ss) = 0); [|lia].
      clear - F table_ok. induction F as [|s ss V F IH]; cbn [map sum fold_right]; [reflexivity|]. unfold sum in IH.
        rewrite IH, P_over; [reflexivity|].
      cbn. unfold R11 in V. now destruct (over s).
    - fold D. specialize (IH ltac:(unfold R1 in T; pose proof (lasts_1 (cost I) (total (mach I) ss aa)); fold D in H;
      lia) F (good_next _ _ _ G)
        (room_next _ _ _ _ L (joint_fits _ J))).
      pose proof (worth_wait (Z.to_nat (t - now)) now ss N G RM) as W. unfold R1 in T. rewrite Z2Nat.id in W by lia.
        replace (now + (t - now)) with t in W by lia.
      assert (D = 1) as D1 by (apply unit_1; exact U).
      pose proof (worth_act t (map (norm true t) ss) aa ltac:(
        lia) (good_norm _ _ _ G) (locals_norm _ _ _ _ _ L)) as X.
      fold M in IH, J |- *. rewrite total_norm, rate_norm in X. unfold tick in X. specialize (X (joint_fits _ J)).
        rewrite <- nexts_norm in X by lia.
      rewrite fee_timed by exact TM. rewrite D1 in *. lia.
  Qed.

End Prices.

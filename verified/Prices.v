(* Prices of slots: what a batch pays for what it takes, if every batch lasts one tick.

   In each slot, blocks, host tokens, tokens and requests have prices, never negative. A schedule that had to pay them
   would cost no less than one that obeys the limits and gets the price of each limit back (`pay_le`). *)
Require Import ZArith List Bool Lia Permutation Spec Referee Model Check.
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
  Let M := mach I.
  Definition steady := timed o && unit_cost (cost I).
  Definition urate s := match o with Flow | Weighted | Ttft => if0 (negb (some (end_of o s))) (weigh o s) | _ => 0 end.
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
  Hypothesis block_ok : 0 < block M.
  Lemma supply_nonneg r : row_ok M r = true -> fitsb M none = true -> 0 <= supply M r.
  Proof. intros A B. pose proof (pay_le r none A B). unfold pay in H. cbn in H. lia. Qed.
  Definition fine s := 0 <= wt s /\ inv s.
  Lemma urate_nonneg s : fine s -> 0 <= urate s.
  Proof. unfold fine, urate, if0. intros [H _]. destruct o; cbn; try lia; destruct (negb _); lia. Qed.
  Lemma held_nonneg s : most none (held M s).
  Proof.
    unfold most, held; cbn. pose proof (ceil_mono 0 (Z.max 0 (device s)) (block M) block_ok) as H. rewrite ceil_0 in H.
      fold M. lia.
  Qed.
  (* --- what a joint state is worth -------------------------------------------------------------------------- *)
  Definition good ss := Forall fine ss.
  Definition room ss := fitsb M (all_held M ss) = true.
  Lemma urate_le ss : sum urate ss <= rate o ss.
  Proof.
    unfold urate, rate. destruct o; try apply Z.le_refl; assert (sum (fun _ : state => 0) ss = 0) as
      -> by (induction ss; cbn; auto);
      [destruct (existsb _ ss); cbn; lia|lia].
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
  Proof. intros G. revert aa. induction G as [|s ss F _ IH]; intros [|a aa]; cbn; constructor; [|apply IH].
    destruct F. split; [now destruct (step_wt M s a E) as [-> _]|now apply step_inv]. Qed.
  Lemma room_norm b t ss : room ss -> room (map (norm b t) ss).
  Proof. unfold room. assert (all_held M (map (norm b t) ss) = all_held M ss) as ->; [|easy].
    induction ss as [|s ss IH]; [reflexivity|]. cbn [map all_held fold_right]. unfold all_held in IH.
    now rewrite IH. Qed.
  Lemma mark_some x : some (mark x) = some x. Proof. now destruct x. Qed.
  Lemma rate_norm b t ss : rate o (map (norm b t) ss) = rate o ss.
  Proof.
    unfold rate. destruct o; try reflexivity;
      try (induction ss as [|s ss IH]; cbn [map sum fold_right end_of norm first over weigh wt]; [reflexivity|];
        rewrite mark_some; unfold sum in IH; cbn [end_of weigh] in IH; now rewrite IH).
    f_equal. induction ss as [|s ss IH]; cbn [map existsb norm over]; [reflexivity|]. now rewrite mark_some, IH.
  Qed.
  Lemma fee_timed ss D : timed o = true -> fee o ss D = rate o ss * D. Proof. destruct o; easy. Qed.
  Lemma joint_fits l : joint M l -> fitsb M l = true.
  Proof. intros J. apply joint_iff in J. unfold jointb in J. rewrite !andb_true_iff in J. tauto. Qed.
End Prices.

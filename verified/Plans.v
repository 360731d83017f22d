(* What a request takes and pays at the least: plans, of which nothing is believed.

   In each slot where the request may end the best of several `tries` of values counts (`cell_le`); the first token, if it
   is `split` from the others, is looked at by cells of its time (`cells_le`). *)
Require Import ZArith List Bool Lia Spec OneMachine Tolls Tangent Apart Ends.
Import ListNotations.
Open Scope Z_scope.

Record plan := Plan { split : bool; rungs : list Z; firsts : list Z; tries : list (list Z); cells : list Z; slots : nat; dues : list Z }.

Fixpoint zip_max (l m : list Z) := match l, m with x :: l, y :: m => Z.max x y :: zip_max l m | _, _ => [] end.
Fixpoint most (rows : list (list Z)) := match rows with [] => [] | r :: rows => match rows with [] => r | _ => zip_max r (most rows) end end.
Lemma zip_max_nth l : forall m k, length l = length m -> length (zip_max l m) = length l /\ (nth k (zip_max l m) 0 = nth k l 0 \/ nth k (zip_max l m) 0 = nth k m 0).
Proof.
  induction l as [|x l IH]; intros [|y m] k E; try discriminate; cbn [zip_max length] in *; [split; [reflexivity|now left]|].
  destruct (IH m (pred k) ltac:(lia)) as [A B]. split; [lia|]. destruct k as [|k]; cbn [nth pred] in *; [lia|exact B].
Qed.
Lemma most_nth n rows k : rows <> [] -> Forall (fun r : list Z => length r = n) rows -> length (most rows) = n /\ exists r, In r rows /\ nth k (most rows) 0 = nth k r 0.
Proof.
  intros NE F. induction F as [|r rows R F IH]; [congruence|]. cbn [most]. destruct rows as [|q rows]; [split; [exact R|]; exists r; split; [now left|reflexivity]|].
  destruct (IH ltac:(discriminate)) as (A & r' & B & C). destruct (zip_max_nth r (most (q :: rows)) k ltac:(lia)) as [D [E|E]].
  - split; [lia|]. exists r. split; [now left|exact E].
  - split; [lia|]. exists r'. split; [now right|]. now rewrite E.
Qed.
Lemma least_nth z l d k : (d <= k < length l)%nat -> fold_right Z.min z (skipn d l) <= nth k l 0.
Proof.
  revert d k. assert (forall l k, (k < length l)%nat -> fold_right Z.min z l <= nth k l 0) as A.
  { clear. induction l as [|x l IH]; intros k K; cbn [length] in K; [lia|]. cbn [fold_right]. destruct k as [|k]; cbn [nth]; [lia|]. specialize (IH k ltac:(lia)). lia. }
  induction l as [|x l IH]; intros d k K; cbn [length] in K; [lia|]. destruct d as [|d]; [apply A; cbn; lia|]. cbn [skipn]. destruct k as [|k]; [lia|]. cbn [nth]. apply IH. lia.
Qed.
Lemma least_init z l : fold_right Z.min z l <= z. Proof. induction l as [|x l IH]; cbn [fold_right]; lia. Qed.

Section Plans.
  Variables O L e gap least N : Z.
  Variable root : Z -> Z -> Z -> Z -> Z.
  Variable prices : list Z.
  Hypotheses (O_0 : 0 <= O) (L_pos : 0 < L) (gap_0 : 0 <= gap) (e_ok : 0 <= e <= 1024) (NP : 0 < N).
  Hypothesis prices_0 : forallb (Z.leb 0) prices = true.
  Section Request.
    Variables (W : Z) (n : nat) (fees_of : list Z).
    Hypothesis W_0 : 0 <= W.
    Hypothesis fees_0 : forallb (Z.leb 0) fees_of = true.
    Let price := in_slots O L prices.
    Let pay := in_slots O L fees_of.
    Let tollf := toll_of e gap least N root.
    Definition toll_at bs u := tollf (price u) (pay u) bs.
    Fixpoint tolls n ps fs bs := match n with 0%nat => [] | S n => tollf (hd 0 ps) (hd 0 fs) bs :: tolls n (tl ps) (tl fs) bs end.
    Lemma tolls_length bs m : forall ps fs, length (tolls m ps fs bs) = m.
    Proof. induction m as [|m IH]; intros ps fs; cbn [tolls length]; [reflexivity|]. now rewrite IH. Qed.
    Lemma tolls_are bs m : forall s, from_slot (fun s => tollf (nth s prices 0) (nth s fees_of 0) bs) s (tolls m (skipn s prices) (skipn s fees_of) bs).
    Proof.
      assert (forall (l : list Z) s, hd 0 (skipn s l) = nth s l 0 /\ tl (skipn s l) = skipn (S s) l) as H.
      { clear. induction l as [|x l IH]; intros [|s]; try (split; reflexivity). exact (IH s). }
      induction m as [|m IH]; intros s k K; cbn [tolls length] in *; [lia|]. destruct (H prices s) as [-> ->]. destruct (H fees_of s) as [-> ->].
      destruct k as [|k]; cbn [nth]; [now rewrite Nat.add_0_r|]. rewrite (IH (S s) k) by (rewrite tolls_length in *; lia). now rewrite Nat.add_succ_r.
    Qed.
    Lemma toll_steps bs s u : opens O L s <= u < opens O L (S s) -> toll_at bs u = tollf (nth s prices 0) (nth s fees_of 0) bs.
    Proof. intros H. unfold toll_at, price, pay. now rewrite !(in_slots_is O L L_pos _ s u H). Qed.
    Lemma toll_at_0 bs u : right bs = true -> 0 <= toll_at bs u.
    Proof. intros R. apply toll_0; try assumption. now apply in_slots_0. Qed.
    Lemma from_skip v s l d : from_slot v s l -> from_slot v (s + d) (skipn d l).
    Proof. intros F k K. rewrite skipn_length in K. rewrite <- Nat.add_assoc, <- F by lia. clear. revert d k. induction l as [|x l IH]; intros [|d] k; try reflexivity; [now destruct k|exact (IH d k)]. Qed.

    Variable s0 : nat.
    Let stop := opens O L (s0 + n).
    Definition amount_in bs (ps : list piece) := sum (fun p => gain_of bs (amount p)) ps.
    Definition made ps bs := (amount_in bs ps, tolls n (skipn s0 prices) (skipn s0 fees_of) bs).
    Definition cell (ms : list (Z * list Z)) a E := if stop <=? a then W * stop else let s := slot_of O L a in
      fold_right Z.min (W * stop) (skipn (slot_of O L E - s) (most (map (fun m => ends_from L W (W * a + fst m) (opens O L (S s) - a) (skipn (s - s0) (snd m))) ms))).
    Lemma cell_le ps bss a E C : Forall (fun bs => right bs = true) bss -> opens O L s0 <= a -> a <= C -> E <= C -> O <= E ->
      exists bs, right bs = true /\ cell (map (made ps) ([] :: bss)) a E <= W * C + amount_in bs ps - upto (toll_at bs) a C.
    Proof.
      intros R A AC EC OE. pose proof (opens_O O L L_pos s0) as O1. assert (W * stop <= W * C -> forall x, x <= W * stop ->
        exists bs, right bs = true /\ x <= W * C + amount_in bs ps - upto (toll_at bs) a C) as NO.
      { intros H x X. exists []. split; [reflexivity|]. unfold amount_in, toll_at. cbn [gain_of]. rewrite (upto_const _ 0) by (assumption || easy).
        assert (sum (fun _ : piece => 0) ps = 0) as -> by (unfold sum; clear; induction ps; cbn [fold_right]; lia). lia. }
      unfold cell. destruct (Z.leb_spec stop a) as [Q|Q]; [apply NO; nia|]. cbv zeta. destruct (Z.le_gt_cases stop C) as [SC|SC]; [apply NO; [nia|apply least_init]|].
      set (s := slot_of O L a). pose proof (slot_bounds O L L_pos a ltac:(lia)) as SA. fold s in SA. set (c := slot_of O L C).
      pose proof (slot_bounds O L L_pos C ltac:(lia)) as SB. fold c in SB. pose proof (slot_bounds O L L_pos E OE) as SE. set (ee := slot_of O L E) in *.
      assert (forall x y u, opens O L x <= u -> u < opens O L (S y) -> (x <= y)%nat) as LT.
      { intros x y u X Y. destruct (Nat.le_gt_cases x y); [assumption|]. pose proof (opens_mono O L L_pos (S y) x ltac:(lia)). lia. }
      assert (s0 <= s)%nat as S0 by (apply (LT s0 s a); lia). assert (s <= c)%nat as S1 by (apply (LT s c C); lia). assert (ee <= c)%nat as S2 by (apply (LT ee c C); lia).
      assert (c < s0 + n)%nat as S3.
      { destruct (Nat.le_gt_cases (s0 + n) c) as [H|H]; [|exact H]. pose proof (opens_mono O L L_pos (s0 + n) c H). unfold stop in SC. lia. }
      set (rows := map _ _). assert (Forall (fun r => length r = (n - (s - s0))%nat) rows /\ rows <> []) as [RL RN].
      { unfold rows. split; [|discriminate]. apply Forall_forall. intros r K. apply in_map_iff in K. destruct K as (m & <- & K). apply in_map_iff in K.
        destruct K as (bs & <- & _). cbn [made snd fst]. transitivity (length (skipn (s - s0) (tolls n (skipn s0 prices) (skipn s0 fees_of) bs))); [|now rewrite skipn_length, tolls_length].
        generalize (W * a + amount_in bs ps) (opens O L (S s) - a). clear. induction (skipn _ _) as [|y l IH]; intros x z; cbn [ends_from length]; [reflexivity|]. now rewrite IH. }
      destruct (most_nth _ rows (c - s) RN RL) as (ML & r & RI & RE). apply in_map_iff in RI. destruct RI as (m & <- & RI). apply in_map_iff in RI.
      destruct RI as (bs & <- & BI). exists bs. split; [destruct BI as [<-|BI]; [reflexivity|]; rewrite Forall_forall in R; now apply R|].
      etransitivity; [apply (least_nth _ _ _ (c - s)); lia|]. rewrite RE. cbn [made fst snd].
      etransitivity; [apply (ends_le O L L_pos (toll_at bs) _ (toll_steps bs) W _ s a _ (c - s) C)|]; try lia.
      - replace s with (s0 + (s - s0))%nat at 1 by lia. apply from_skip, tolls_are.
      - rewrite skipn_length, tolls_length. lia.
      - replace (s + (c - s))%nat with c by lia. lia.
    Qed.
    Lemma upto_more bs a b c : right bs = true -> a <= b -> upto (toll_at bs) b c <= upto (toll_at bs) a c.
    Proof.
      intros R H. assert (forall u, 0 <= toll_at bs u) as T by (intros u; now apply toll_at_0). destruct (Z.le_gt_cases c b).
      - rewrite (upto_none _ b) by assumption. now apply upto_0.
      - rewrite (upto_cut _ a b c) by lia. pose proof (upto_0 _ a b T). lia.
    Qed.
    Lemma upto_less bs a b c : right bs = true -> b <= c -> upto (toll_at bs) a b <= upto (toll_at bs) a c.
    Proof.
      intros R H. assert (forall u, 0 <= toll_at bs u) as T by (intros u; now apply toll_at_0). destruct (Z.le_gt_cases b a).
      - rewrite (upto_none _ a) by assumption. now apply upto_0.
      - rewrite (upto_cut _ a b c) by lia. pose proof (upto_0 _ b c T). lia.
    Qed.

    (* The first token, done by e: *)
    Variables (p : piece) (qs : list piece) (ms0 ms : list (Z * list Z)) (bss0 bss : list bands) (b first0 : Z).
    Definition head x := fold_right Z.max 0 (map (fun m => fst m - spend L (opens O L (S s0) - from p) (x - from p) (snd m)) ms0).
    Fixpoint by_cells a E es := match es with [] => W * E
      | x :: es => Z.min (cell ms a E + head x) (by_cells (Z.max x b) (Z.max first0 (x + behind p)) es) end.
    Hypotheses (ms0_is : ms0 = map (made [p]) bss0) (ms_is : ms = map (made qs) ([] :: bss)).
    Hypotheses (R0 : Forall (fun bs => right bs = true) bss0) (R1 : Forall (fun bs => right bs = true) bss).
    Hypotheses (rO : O <= from p) (rs : slot_of O L (from p) = s0) (rb : from p <= b) (bf : b <= first0) (k0 : 0 <= behind p).
    Lemma head_le F x : F <= x -> from p <= x <= stop -> exists bs, right bs = true /\ head x <= gain_of bs (amount p) - upto (toll_at bs) (from p) F.
    Proof.
      intros FX [X1 X2]. unfold head. subst ms0. induction bss0 as [|bs l IH]; cbn [map fold_right].
      - exists []. split; [reflexivity|]. cbn [gain_of]. destruct (Z.le_gt_cases F (from p)); [rewrite upto_none by assumption; lia|].
        rewrite (upto_const _ 0); [lia|lia|]. reflexivity.
      - inversion R0 as [|y z B1 B2]. subst. destruct (IH B2) as (bs' & C1 & C2). clear IH.
        match goal with |- context [Z.max ?u ?v] => destruct (Z.max_spec u v) as [[_ ->]|[_ ->]] end; [exists bs'; now split|].
        exists bs. split; [exact B1|]. cbn [made fst snd]. unfold amount_in. cbn [sum fold_right]. rewrite Z.add_0_r.
        apply Z.sub_le_mono_l. pose proof (slot_bounds O L L_pos (from p) rO) as SB. rewrite rs in SB.
        rewrite <- (spend_is O L L_pos (toll_at bs) _ (toll_steps bs) _ s0 (from p) (x - from p)); [|apply tolls_are|lia|lia|].
        + replace (from p + (x - from p)) with x by lia. now apply upto_less.
        + rewrite tolls_length. unfold stop in X2. lia.
    Qed.
    Lemma cells_le es : forallb (fun x => (from p <=? x) && (x <=? stop)) es = true -> forall a E F C, opens O L s0 <= a -> a <= Z.max F b -> E <= C -> O <= E ->
      first0 <= C -> F + behind p <= C -> exists bs0 bs, right bs0 = true /\ right bs = true /\
      by_cells a E es <= W * C + gain_of bs0 (amount p) - upto (toll_at bs0) (from p) F + amount_in bs qs - upto (toll_at bs) (Z.max F b) C.
    Proof.
      assert (opens O L s0 <= from p) as SP by (rewrite <- rs; apply (slot_bounds O L L_pos); exact rO).
      induction es as [|x es IH]; cbn [forallb by_cells]; intros CK a E F C A AF EC OE FC KC.
      - exists [], []. split; [reflexivity|]. split; [reflexivity|]. unfold toll_at, tollf. cbn [gain_of toll_of]. assert (amount_in [] qs = 0) as ->.
        { unfold amount_in, sum. clear. induction qs as [|q l IH]; cbn [fold_right gain_of] in *; lia. }
        assert (forall x y, upto (fun _ => 0) x y = 0) as Z0.
        { intros x y. unfold upto. generalize (Z.to_nat (y - x)). intros k. revert x. clear. induction k as [|k IH]; intros x; cbn [area]; [reflexivity|]. now rewrite IH. }
        rewrite !Z0. pose proof (Z.mul_le_mono_nonneg_l _ _ W W_0 EC). lia.
      - apply andb_true_iff in CK. destruct CK as [CX CK]. apply andb_true_iff in CX. rewrite !Z.leb_le in CX.
        destruct (Z.le_gt_cases F x) as [Q|Q].
        + destruct (head_le F x Q CX) as (bs0 & B1 & B2). destruct (cell_le qs bss a E C R1 A ltac:(lia) EC OE) as (bs & B3 & B4). rewrite <- ms_is in B4.
          exists bs0, bs. split; [exact B1|]. split; [exact B3|]. pose proof (upto_more bs a (Z.max F b) C B3 AF). lia.
        + destruct (IH CK (Z.max x b) (Z.max first0 (x + behind p)) F C ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia) FC KC) as (bs0 & bs & B1 & B2 & B3).
          exists bs0, bs. split; [exact B1|]. split; [exact B2|]. lia.
    Qed.
  End Request.
End Plans.

(* No request is faster than alone.

   A batch that a request works in lasts at least `step`, the least that a batch with any work takes. Its next token takes
   as many batches as the limit of prefill tokens asks (`parts`), and at least the price of what it still has to process
   under each function of the cost (`toll`); each later token takes its batches, and calls take their time. What a state
   so promises (`first_by`, `over_by`, `gap_by`) only grows along a run, and at its end is the schedule's. *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices.
Import ListNotations.
Open Scope Z_scope.

(* --- Squares ------------------------------------------------------------------------------------------------- *)
Lemma pairs_pos w m : 1 <= w -> 0 <= m -> 1 <= w * w + 2 * w * m. Proof. nia. Qed.
Lemma pairs_nonneg w m : 0 <= w -> 0 <= m -> 0 <= w * w + 2 * w * m. Proof. nia. Qed.
Lemma square_mono k' k : 0 <= k' <= k -> k' * k' <= k * k. Proof. nia. Qed.
Lemma pairs_to m w S : 0 <= m -> 1 <= w -> m + w = S -> Z.max 1 ((S - 1) * (S - 1) - m * m) <= w * w + 2 * w * m.
Proof. intros A B <-. pose proof (pairs_pos w m B A). lia. Qed.
Lemma pairs_on m w S x : 0 <= m -> 1 <= w -> 0 <= x ->
  Z.max 1 ((S - 1) * (S - 1) - m * m) <= w * w + 2 * w * m + Z.max x ((S - 1) * (S - 1) - (m + w) * (m + w)).
Proof. intros A B C. pose proof (pairs_pos w m B A). lia. Qed.

(* --- What is in a batch is in its total ---------------------------------------------------------------------- *)
Definition under x y := (tok x <= tok y /\ ptok x <= ptok y /\ gen x <= gen y /\ ndec x <= ndec y /\ npre x <= npre y)
  /\ (dkv x <= dkv y /\ pkv x <= pkv y /\ pairs x <= pairs y /\ otok x <= otok y /\ itok x <= itok y)
  /\ (nout x <= nout y /\ nin x <= nin y /\ blk x <= blk y /\ hos x <= hos y).
Lemma under_plus x y x' y' : under x x' -> under y y' -> under (plus x y) (plus x' y').
Proof. unfold under. cbn [plus tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos]. lia. Qed.
Lemma under_refl x : under x x. Proof. unfold under. lia. Qed.
Lemma b2z_cases b : b2z b = 0 /\ b = false \/ b2z b = 1 /\ b = true. Proof. destruct b; cbn; lia || tauto. Qed.
Lemma both_impl {A B} (P Q : A -> B -> Prop) : (forall x y, P x y -> Q x y) -> forall l k, Forall2 P l k -> Forall2 Q l k.
Proof. intros H l k. induction 1; constructor; auto. Qed.
Lemma load_under M t s a : 0 < block M -> local M t s a -> under none (load_of M s a).
Proof.
  intros Q L. pose proof (load_nonneg _ _ _ _ Q L) as (_ & _ & _ & B & H). destruct L as (_ & C & _ & _ & _ & _ & G).
  pose proof (m2_nonneg _ _ G) as N. assert (0 <= work a) as W by (unfold R3 in C; lia). unfold R10 in G.
  pose proof (pairs_nonneg _ _ W N) as P.
  unfold under. cbn [load_of none tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos] in *.
  assert (forall b x, 0 <= x -> 0 <= if0 b x) as Z0 by (intros [] x; cbn; lia).
  assert (forall b, 0 <= b2z b) as Z1 by (intros []; cbn; lia).
  specialize (Z0 (prefills s a)) as P1. specialize (Z0 (decodes s a)) as P2.
  pose proof (P1 (work a) W). pose proof (P1 (m2 s a) N). pose proof (P1 _ P). pose proof (P2 (m2 s a) N).
  pose proof (Z1 (generates s a)). pose proof (Z1 (decodes s a)). pose proof (Z1 (prefills s a)).
  pose proof (Z1 (negb (out a =? 0))). pose proof (Z1 (negb (back a =? 0))). clear - W B H G H0 H1 H2 H3 H4 H5 H6 H7 H8. lia.
Qed.
Lemma loads_under M t ss aa : 0 < block M -> Forall2 (local M t) ss aa -> under none (total M ss aa) /\
  Forall2 (fun s a => local M t s a /\ under (load_of M s a) (total M ss aa)) ss aa.
Proof.
  intros Q. induction 1 as [|s a ss aa L _ [N IH]]; cbn [total]; [split; [apply under_refl|constructor]|].
  pose proof (load_under _ _ _ _ Q L) as U. split; [|constructor].
  - rewrite <- (plus_none none). now apply under_plus.
  - split; [exact L|]. rewrite <- (plus_none (load_of M s a)) at 1. rewrite plus_comm. now apply under_plus; [apply under_refl|].
  - eapply both_impl; [|exact IH]. intros x y [A B]. split; [exact A|]. rewrite <- (plus_none (load_of M x y)).
    now apply under_plus.
Qed.

(* --- Costs that only grow ------------------------------------------------------------------------------------ *)
Definition grows f := (1 <=? divisor f) && forallb (Z.leb 0) [busy f; any_decode f; any_prefill f; tokens f; above f;
  generated f; decode_requests f; prefill_requests f; decode_kv f; prefill_kv f; prefill_pairs f; swap_out_tokens f;
  swap_in_tokens f; swap_outs f; swap_ins f].
Lemma b2z_mono x y : x <= y -> b2z (0 <? x) <= b2z (0 <? y).
Proof. intros H. destruct (Z.ltb_spec 0 x), (Z.ltb_spec 0 y); cbn; lia. Qed.
Lemma value_mono f x y : grows f = true -> under x y -> value_of f x <= value_of f y.
Proof.
  unfold grows. cbn [forallb]. rewrite !andb_true_iff, !Z.leb_le. intros G (A & B & C). decompose [and] G. clear G.
  pose proof (b2z_mono (ndec x + npre x) (ndec y + npre y) ltac:(lia)). pose proof (b2z_mono (ndec x) (ndec y) ltac:(lia)).
  pose proof (b2z_mono (npre x) (npre y) ltac:(lia)). unfold value_of.
  repeat apply Z.add_le_mono; apply Z.mul_le_mono_nonneg_l; lia.
Qed.
Lemma lasts_mono fs x y : forallb grows fs = true -> under x y -> lasts fs x <= lasts fs y.
Proof.
  intros G U. unfold lasts. induction fs as [|f fs IH]; cbn [forallb fold_right] in *; [lia|]. apply andb_true_iff in G.
  destruct G as [G H]. specialize (IH H). pose proof (value_mono _ _ _ G U). unfold grows in G. apply andb_true_iff in G.
  destruct G as [G _]. apply Z.leb_le in G. pose proof (ceil_mono (value_of f x) (value_of f y) (divisor f)). lia.
Qed.
Lemma ceil_le x q d : 0 < q -> ceil_div x q <= d -> x <= q * d.
Proof. unfold ceil_div. intros Q H. pose proof (Z.mul_div_le (- x) q Q). pose proof (Z.mul_le_mono_nonneg_l (- d) (- x / q) q
  ltac:(lia) ltac:(lia)). lia. Qed.
Lemma lasts_in fs f l : In f fs -> ceil_div (value_of f l) (divisor f) <= lasts fs l.
Proof. unfold lasts. generalize (fun g => ceil_div (value_of g l) (divisor g)). intros h.
  induction fs as [|g fs IH]; [easy|]. cbn [fold_right]. intros [->|K]; [lia|]. specialize (IH K). lia. Qed.
Lemma lasts_ge fs f l : In f fs -> forallb grows fs = true -> value_of f l <= divisor f * lasts fs l.
Proof.
  intros K G. rewrite forallb_forall in G. specialize (G f K). unfold grows in G. apply andb_true_iff in G.
  destruct G as [G _]. apply Z.leb_le in G. apply ceil_le; [lia|]. now apply lasts_in.
Qed.

(* --- What a state promises ----------------------------------------------------------------------------------- *)
Definition parts M x :=
  let p := match prefill_tokens M with None => batch_tokens M | p => p end in
  match p with Some p => if chunked M && (1 <=? p) then ceil_div x p else 1 | None => 1 end.
Definition gone (s : state) := due s && is_h Discard (window s).  (* a call has just ordered to drop its KV *)
Definition kv s := if gone s then host s else device s + host s.
Definition lack s := known s - kv s.
Fixpoint future M context (r : list (call * Z)) {struct r} := match r with
  | [] => 0
  | (c, d) :: r => parts M (1 + returns c + if0 (is_h Discard (Some (handled c))) context) + (d - 1)
      + future M (context + returns c + d) r
  end.
Definition delays s := sum (fun c => duration (fst c)) (rest s).
Definition toll f S k :=
  let pre := b2z ((k <=? 0) || (2 <=? S - k)) in
  tokens f * (S - k) + generated f + busy f + (any_prefill f + prefill_requests f) * pre
  + prefill_pairs f * Z.max pre ((S - 1) * (S - 1) - k * k).
Definition solo fs S k := fold_right (fun f x => Z.max (ceil_div (toll f S k) (divisor f)) x) 0 fs.
Definition least_load r := (Load 1 0 1 1 0 r 0 0 0 0 0 0 0 0, Load 1 1 0 0 1 0 0 1 0 0 0 0 0 0).
Definition quick fs r := Z.min (lasts fs (fst (least_load r))) (lasts fs (snd (least_load r))).

Lemma solo_le fs x S k : 0 <= x -> (forall f, In f fs -> ceil_div (toll f S k) (divisor f) <= x) -> solo fs S k <= x.
Proof. unfold solo. intros X H. induction fs as [|f gs IH]; cbn [fold_right]; [exact X|].
  pose proof (H f (or_introl eq_refl)). specialize (IH (fun g K => H g (or_intror K))). lia. Qed.
Lemma solo_ge fs f S k : In f fs -> ceil_div (toll f S k) (divisor f) <= solo fs S k.
Proof. unfold solo. intros K. induction fs as [|g gs IH]; [destruct K|]. cbn [fold_right].
  destruct K as [->|K]; [lia|]. specialize (IH K). lia. Qed.
Lemma solo_0 fs S k : 0 <= solo fs S k.
Proof. unfold solo. induction fs; cbn [fold_right]; lia. Qed.

Section Alone.
  Variable I : instance.
  Variable shortest : Z.  (* no request's context is ever shorter *)
  Let M := mach I.
  Let fs := cost I.
  Definition step := quick fs (Z.max 1 (shortest - 1)).
  Definition need s := Z.max (step * parts M (lack s)) (solo fs (known s) (kv s)).
  Definition tail s := step * (todo s - 1 + future M (known s + todo s - 1) (rest s)) + delays s.
  Definition first_by now s := match first s with Some x => x | None => Z.max now (ready s) + need s end.
  Definition over_by now s := match over s with Some x => x | None => Z.max now (ready s) + need s + tail s end.
  Definition gap_by now s := match first s with Some x => over_by now s - x | None => tail s end.
  Definition proper s := shortest <= known s /\ Forall (fun c => 0 <= returns (fst c)) (rest s).

  Hypothesis block_ok : 0 < block M.
  Hypothesis cost_ok : forallb grows fs = true.

  Lemma step_1 : 1 <= step.
  Proof. unfold step, quick. pose proof (lasts_1 fs (fst (least_load (Z.max 1 (shortest - 1))))).
    pose proof (lasts_1 fs (snd (least_load (Z.max 1 (shortest - 1))))). lia. Qed.
  Lemma parts_mono x y : x <= y -> parts M x <= parts M y.
  Proof. intros H. unfold parts. destruct (match prefill_tokens M with None => _ | _ => _ end) as [p|]; [|lia].
    destruct (chunked M && (1 <=? p)) eqn:E; [|lia]. apply andb_true_iff in E. destruct E as [_ E]. apply Z.leb_le in E.
    apply ceil_mono; lia. Qed.
  Lemma ceil_less x w p : 0 < p -> w <= p -> ceil_div x p <= 1 + ceil_div (x - w) p.
  Proof. intros P W. unfold ceil_div. pose proof (Z.div_le_mono (- (x - w) - 1 * p) (- x) p P ltac:(lia)) as H.
    replace (- (x - w) - 1 * p) with (- (x - w) + (-1) * p) in H by lia.
    rewrite Z.div_add in H by lia. lia. Qed.
  Lemma parts_1 x : 1 <= x -> 1 <= parts M x.
  Proof. intros H. unfold parts. destruct (match prefill_tokens M with None => _ | _ => _ end) as [p|]; [|lia].
    destruct (chunked M && (1 <=? p)) eqn:E; [|lia]. apply andb_true_iff in E. destruct E as [_ E]. apply Z.leb_le in E.
    unfold ceil_div. pose proof (Z.div_lt_upper_bound (- x) p 0 ltac:(lia) ltac:(lia)). lia. Qed.

  (* One act of a request, in a batch with total l. *)
  Section Act.
    Variable t : Z.
    Variable s : state.
    Variable a : act.
    Variable l : load.
    Hypothesis legal : local M t s a.
    Hypothesis inside : under (load_of M s a) l.
    Hypothesis fits : fitsb M l = true.
    Let D := lasts fs l.
    Hypothesis fine : proper s.

    Lemma kv_drop : 0 <= m2 s a /\ m2 s a + h2 s a <= kv s.
    Proof.
      destruct legal as (_ & _ & _ & _ & _ & R & G). split; [now apply m2_nonneg|]. unfold R10 in G.
      unfold kv, gone, m2, h2, h1, m1 in *. destruct (due s && is_h Discard (window s)) eqn:E; [|lia].
      apply andb_true_iff in E. destruct E as [E1 E2]. apply is_h_iff in E2. destruct R as [R _].
      destruct (R E1) as [X _]. specialize (X E2). lia.
    Qed.
    Lemma work_few : work a <> 0 -> 1 <= work a <= known s - m2 s a /\
      (chunked M = false -> work a = known s - m2 s a).
    Proof. destruct legal as (_ & C & _). exact C. Qed.
    Lemma phase : work a <> 0 -> (decodes s a = true /\ prefills s a = false /\ 0 < m2 s a /\ known s - m2 s a = 1 /\ work a = 1)
      \/ (decodes s a = false /\ prefills s a = true /\ (m2 s a = 0 \/ 2 <= known s - m2 s a)).
    Proof.
      intros W. pose proof (work_few W) as [X _]. pose proof kv_drop as [Y _]. unfold prefills, decodes.
      destruct (Z.eqb_spec (work a) 0) as [K|K]; [contradiction|]. cbn [negb andb].
      destruct (Z.ltb_spec 0 (m2 s a)), (Z.eqb_spec (known s - m2 s a) 1); cbn [negb andb]; [left|right|right|right];
        repeat split; try lia.
    Qed.
    Lemma chunk p : work a <> 0 -> match prefill_tokens M with None => batch_tokens M | p => p end = Some p -> 1 <= p ->
      work a <= p.
    Proof.
      intros W P P1. destruct (phase W) as [(_ & _ & _ & _ & ->)|(_ & X & _)]; [exact P1|].
      destruct inside as ((A & B & _) & _). cbn [load_of tok ptok] in A, B. rewrite X in B. cbn [if0] in B.
      unfold fitsb in fits. rewrite !andb_true_iff in fits. destruct fits as [[[[F1 F2] _] _] _].
      destruct (prefill_tokens M) as [q|].
      - injection P as ->. apply Z.leb_le in F2. lia.
      - rewrite P in F1. apply Z.leb_le in F1. lia.
    Qed.
    Lemma parts_work : work a <> 0 -> parts M (known s - m2 s a) <= 1 + parts M (known s - m2 s a - work a).
    Proof.
      intros W. unfold parts. destruct (match prefill_tokens M with None => _ | _ => _ end) as [p|] eqn:P; [|lia].
      destruct (chunked M && (1 <=? p)) eqn:E; [|lia]. apply andb_true_iff in E. destruct E as [_ E]. apply Z.leb_le in E.
      apply ceil_less; [lia|]. now apply chunk.
    Qed.
    Lemma parts_last : work a <> 0 -> work a = known s - m2 s a -> parts M (known s - m2 s a) <= 1.
    Proof.
      intros W X. unfold parts. destruct (match prefill_tokens M with None => _ | _ => _ end) as [p|] eqn:P; [|lia].
      destruct (chunked M && (1 <=? p)) eqn:E; [|lia]. apply andb_true_iff in E. destruct E as [_ E]. apply Z.leb_le in E.
      pose proof (chunk p W P E). pose proof (ceil_less (known s - m2 s a) (known s - m2 s a) p ltac:(lia) ltac:(lia)) as H1.
      rewrite Z.sub_diag, ceil_0 in H1. lia.
    Qed.
    Lemma step_D : work a <> 0 -> step <= D.
    Proof.
      intros W. pose proof (work_few W) as [X _]. destruct inside as (A & B & C).
      cbn [load_of tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos] in A, B, C.
      assert (under none l) as N.
      { pose proof (load_under _ _ _ _ block_ok legal) as N. unfold under in *.
        cbn [none load_of tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos] in *. lia. }
      destruct fine as [S _]. unfold step, quick.
      destruct (phase W) as [(E & F & G & H & J)|(E & F & G)]; rewrite E, F in A, B; cbn [b2z if0] in A, B.
      - assert (generates s a = true) as Y.
        { unfold generates. destruct (Z.eqb_spec (work a) 0); [contradiction|]. apply Z.eqb_eq. lia. }
        rewrite Y in A. cbn [b2z] in A. etransitivity; [apply Z.le_min_l|]. apply lasts_mono; [exact cost_ok|].
        unfold under in *. cbn [none fst least_load tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos] in *. lia.
      - pose proof kv_drop as [K _]. pose proof (pairs_pos (work a) (m2 s a) ltac:(lia) K) as P.
        etransitivity; [apply Z.le_min_r|]. apply lasts_mono; [exact cost_ok|].
        unfold under in *. cbn [none snd least_load tok ptok gen ndec npre dkv pkv pairs otok itok nout nin blk hos] in *. lia.
    Qed.

    (* The toll, of one function. *)
    Lemma toll_drop f k k' : grows f = true -> 0 <= k' <= k -> toll f (known s) k <= toll f (known s) k'.
    Proof.
      unfold grows. cbn [forallb]. rewrite !andb_true_iff, !Z.leb_le. intros G K. decompose [and] G. clear G. unfold toll.
      assert (b2z ((k <=? 0) || (2 <=? known s - k)) <= b2z ((k' <=? 0) || (2 <=? known s - k'))) as P.
      { destruct (Z.leb_spec k 0), (Z.leb_spec 2 (known s - k)), (Z.leb_spec k' 0), (Z.leb_spec 2 (known s - k')); cbn; lia. }
      pose proof (square_mono k' k K) as Q.
      repeat apply Z.add_le_mono; try lia; apply Z.mul_le_mono_nonneg_l; lia.
    Qed.
    Lemma toll_work f : grows f = true -> work a <> 0 -> toll f (known s) (m2 s a) <= value_of f (load_of M s a)
      + (if generates s a then 0 else toll f (known s) (m2 s a + work a)).
    Proof.
      intros G W. pose proof (work_few W) as [X _]. pose proof kv_drop as [K _].
      pose proof (load_under _ _ _ _ block_ok legal) as (N1 & N2 & N3).
      unfold grows in G. cbn [forallb] in G. rewrite !andb_true_iff, !Z.leb_le in G. decompose [and] G. clear G.
      assert (generates s a = (m2 s a + work a =? known s)) as GE.
      { unfold generates. destruct (Z.eqb_spec (work a) 0); [contradiction|reflexivity]. }
      unfold value_of. cbn [load_of none tok ptok gen ndec npre dkv pkv pairs otok itok nout nin] in *. rewrite GE.
      set (rest1 := swap_out_tokens f * _) in *. set (w := work a) in *. set (m := m2 s a) in *. set (S := known s) in *.
      assert (0 <= above f * Z.max 0 (w - knee f)) as A1 by (apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= rest1) as A2 by (unfold rest1; apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= swap_in_tokens f * back a) as A3 by (apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= swap_outs f * b2z (negb (out a =? 0))) as A4 by (apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= swap_ins f * b2z (negb (back a =? 0))) as A5 by (apply Z.mul_nonneg_nonneg; lia).
      clearbody rest1. unfold toll.
      destruct (phase W) as [(E & F & P & Q & J)|(E & F & P)]; rewrite E, F in *; cbn [b2z if0] in *; fold m S w in P |- *.
      - fold m S in Q. fold w in J. destruct (Z.eqb_spec (m + w) S) as [Y|Y]; [|lia].
        destruct (Z.leb_spec m 0), (Z.leb_spec 2 (S - m)); try lia. cbn [orb b2z Z.ltb Z.compare Z.add].
        replace (Z.max 0 ((S - 1) * (S - 1) - m * m)) with 0 by (replace m with (S - 1) by lia; lia).
        rewrite J. replace (S - m) with 1 by lia.
        assert (0 <= decode_kv f * m) by (apply Z.mul_nonneg_nonneg; lia). lia.
      - assert (b2z ((m <=? 0) || (2 <=? S - m)) = 1) as P1.
        { destruct (Z.leb_spec m 0), (Z.leb_spec 2 (S - m)); cbn; lia. }
        rewrite P1. cbn [Z.ltb Z.compare Z.add b2z]. assert (0 <= prefill_kv f * m) as A6 by (apply Z.mul_nonneg_nonneg; lia).
        destruct (Z.eqb_spec (m + w) S) as [Y|Y]; cbn [b2z].
        + pose proof (pairs_to m w S K ltac:(lia) Y) as R.
          pose proof (Z.mul_le_mono_nonneg_l _ _ (prefill_pairs f) ltac:(lia) R). replace (S - m) with w by lia.
          generalize dependent (Z.max 1 ((S - 1) * (S - 1) - m * m)). intros. lia.
        + set (pre := b2z ((m + w <=? 0) || (2 <=? S - (m + w)))). assert (0 <= pre) as Z1 by (unfold pre; destruct (b2z_cases ((m + w <=? 0) || (2 <=? S - (m + w)))) as [[-> _]|[-> _]]; lia).
          pose proof (pairs_on m w S pre K ltac:(lia) Z1) as R.
          pose proof (Z.mul_le_mono_nonneg_l _ _ (prefill_pairs f) ltac:(lia) R).
          assert (0 <= any_prefill f * pre) by (apply Z.mul_nonneg_nonneg; lia).
          assert (0 <= prefill_requests f * pre) by (apply Z.mul_nonneg_nonneg; lia). clearbody pre.
          generalize dependent (Z.max 1 ((S - 1) * (S - 1) - m * m)).
          generalize dependent (Z.max pre ((S - 1) * (S - 1) - (m + w) * (m + w))). intros. lia.
    Qed.
    Lemma ceil_step x y q d : 0 < q -> x <= q * d + y -> ceil_div x q <= d + ceil_div y q.
    Proof. intros Q H. unfold ceil_div. pose proof (Z.div_le_mono (- y + (- d) * q) (- x) q Q ltac:(lia)) as R.
      rewrite Z.div_add in R by lia. lia. Qed.
    Lemma grown f : In f fs -> grows f = true /\ 0 < divisor f.
    Proof. intros K. rewrite forallb_forall in cost_ok. pose proof (cost_ok f K) as G. split; [exact G|].
      unfold grows in G. apply andb_true_iff in G. destruct G as [G _]. apply Z.leb_le in G. lia. Qed.
    Lemma solo_drop k k' : 0 <= k' <= k -> solo fs (known s) k <= solo fs (known s) k'.
    Proof.
      intros K. apply solo_le; [apply solo_0|]. intros f F. destruct (grown f F) as [G Q]. etransitivity; [|apply solo_ge; exact F].
      apply ceil_mono; [exact Q|]. apply toll_drop; [exact G|exact K].
    Qed.
    Lemma solo_work : work a <> 0 ->
      solo fs (known s) (m2 s a) <= D + (if generates s a then 0 else solo fs (known s) (m2 s a + work a)).
    Proof.
      intros W. pose proof (lasts_1 fs l) as D1. fold D in D1. apply solo_le.
      { destruct (generates s a); [lia|]. pose proof (solo_0 fs (known s) (m2 s a + work a)). lia. }
      intros f F. destruct (grown f F) as [G Q]. pose proof (toll_work f G W) as T. pose proof (value_mono f _ _ G inside) as V.
      pose proof (lasts_ge fs f l F cost_ok) as B. fold D in B. destruct (generates s a).
      - pose proof (ceil_step (toll f (known s) (m2 s a)) 0 (divisor f) D Q ltac:(lia)) as R. rewrite ceil_0 in R. lia.
      - pose proof (ceil_step (toll f (known s) (m2 s a)) (toll f (known s) (m2 s a + work a)) (divisor f) D Q ltac:(lia)).
        pose proof (solo_ge fs f (known s) (m2 s a + work a) F). lia.
    Qed.
    Lemma need_drop k : 0 <= k <= kv s -> need s <= Z.max (step * parts M (known s - k)) (solo fs (known s) k).
    Proof.
      intros K. unfold need, lack. pose proof (solo_drop (kv s) k ltac:(lia)). pose proof step_1.
      pose proof (parts_mono (known s - kv s) (known s - k) ltac:(lia)).
      pose proof (Z.mul_le_mono_nonneg_l _ _ step ltac:(lia) H1). lia.
    Qed.
    Lemma need_work : work a <> 0 -> generates s a = false ->
      need s <= D + Z.max (step * parts M (known s - (m2 s a + work a))) (solo fs (known s) (m2 s a + work a)).
    Proof.
      intros W GE. pose proof kv_drop as [K1 K2]. destruct legal as (_ & _ & R & _). destruct (R W) as [HZ _].
      pose proof (need_drop (m2 s a) ltac:(lia)). pose proof (solo_work W) as SW. rewrite GE in SW.
      pose proof (step_D W). pose proof step_1.
      replace (known s - (m2 s a + work a)) with (known s - m2 s a - work a) by lia.
      pose proof (Z.mul_le_mono_nonneg_l _ _ step ltac:(lia) (parts_work W)). lia.
    Qed.
    Lemma need_last : work a <> 0 -> generates s a = true -> need s <= D.
    Proof.
      intros W GE. pose proof kv_drop as [K1 K2]. destruct legal as (_ & _ & R & _). destruct (R W) as [HZ _].
      pose proof (need_drop (m2 s a) ltac:(lia)). pose proof (solo_work W) as SW. rewrite GE in SW.
      unfold generates in GE. apply andb_true_iff in GE. destruct GE as [_ GE]. apply Z.eqb_eq in GE.
      pose proof (step_D W). pose proof step_1.
      pose proof (Z.mul_le_mono_nonneg_l _ _ step ltac:(lia) (parts_last W ltac:(lia))). lia.
    Qed.
  End Act.

  (* Along a run. *)
  Lemma promised t s a l now : local M t s a -> under (load_of M s a) l -> fitsb M l = true -> proper s -> now <= t ->
    let D := lasts fs l in let s' := next M (t + D) s a in
    proper s' /\ first_by now s <= first_by (t + D) s' /\ over_by now s <= over_by (t + D) s' /\ gap_by now s <= gap_by (t + D) s'.
  Proof.
    intros L U F P T D s'. pose proof (lasts_1 fs l) as D1. fold D in D1. pose proof step_1 as S1. pose proof P as [P1 P2].
    destruct (kv_drop t s a l L) as [K1 K2]. pose proof (work_few t s a L) as WF.
    pose proof (need_work t s a l L U F P) as NW. pose proof (need_last t s a l L U F P) as NL.
    pose proof (need_drop s l) as ND. pose proof L as (R2 & _ & _ & _ & _ & _ & G). fold D in NW, NL.
    unfold s', next. unfold generates in NW, NL. destruct (Z.eqb_spec (work a) 0) as [W|W].
    - assert (m2 s a + h2 s a = m2 s a + h2 s a) as E by reflexivity. assert (0 <= h2 s a) as H by (unfold R10 in G; unfold h2; lia).
      specialize (ND (m2 s a + h2 s a) ltac:(lia)).
      split; [exact P|]. unfold gap_by, first_by, over_by, need, tail, delays, lack, kv, gone in *.
      cbn [first over ready known device host todo rest due window andb] in *.
      destruct (first s), (over s); lia.
    - destruct (R2 W) as [O RD]. specialize (WF W). specialize (NW W). specialize (NL W). cbn [negb andb] in NW, NL.
      destruct L as (_ & _ & R4 & _). destruct (R4 W) as [HZ _].
      destruct (Z.eqb_spec (m2 s a + work a) (known s)) as [E|E]; cbn [negb].
      + specialize (NL eq_refl). clear NW ND. destruct (Z.eqb_spec (todo s) 1) as [X|X]; cbn [negb].
        * destruct (rest s) as [|[c d] r] eqn:RE.
          -- split; [split; cbn [known rest]; [lia|constructor]|]. unfold gap_by, first_by, over_by, tail, delays in *.
             cbn [first over ready known device host todo rest due window] in *. rewrite O, RE, X.
             cbn [future sum fold_right]. replace (step * (1 - 1 + 0) + 0) with 0 by lia. destruct (first s); lia.
          -- inversion P2 as [|x y RN P3]. subst. cbn [fst] in RN. split; [split; cbn [known rest]; [lia|exact P3]|].
             assert (forall t', need (State (known s + 1 + returns c) (m2 s a + work a) (h2 s a) d r t' (Some (handled c))
               (orders (handled c)) false (match first s with None => Some (t + D) | x => x end) (over s) (arrived s) (wt s))
               >= step * parts M (1 + returns c + if0 (is_h Discard (Some (handled c))) (known s))) as N2.
             { intros t'. unfold need, lack, kv, gone. cbn [known device host due window]. rewrite HZ, E.
               destruct (handled c); cbn [orders is_h andb if0];
               [replace (1 + returns c + 0) with (known s + 1 + returns c - (known s + 0)) by lia
               |replace (1 + returns c + known s) with (known s + 1 + returns c - 0) by lia
               |replace (1 + returns c + 0) with (known s + 1 + returns c - (known s + 0)) by lia
               |replace (1 + returns c + 0) with (known s + 1 + returns c - (known s + 0)) by lia]; lia. }
             specialize (N2 (t + D + duration c)). unfold gap_by, first_by, over_by, tail, delays in *.
             set (n := need (State _ _ _ _ _ _ _ _ _ _ _ _ _)) in *. clearbody n.
             cbn [first over ready known device host todo rest due window] in *. rewrite O, RE, X.
             cbn [future sum fold_right fst]. replace (known s + 1 - 1) with (known s) by lia.
             replace (known s + 1 + returns c + d - 1) with (known s + returns c + d) by lia.
             unfold sum. generalize dependent (future M (known s + returns c + d) r). intros fu.
             generalize dependent (parts M (1 + returns c + if0 (is_h Discard (Some (handled c))) (known s))). intros pa N2.
             replace (step * (1 - 1 + (pa + (d - 1) + fu))) with (step * pa + step * (d - 1 + fu)) by ring.
             generalize (step * (d - 1 + fu)). intros. destruct (first s); lia.
        * split; [split; cbn [known rest]; [lia|exact P2]|].
          assert (need (State (known s + 1) (m2 s a + work a) (h2 s a) (todo s - 1) (rest s) (ready s) None false (negb (pause M))
            (match first s with None => Some (t + D) | x => x end) (over s) (arrived s) (wt s)) >= step) as N2.
          { unfold need, lack, kv, gone. cbn [known device host due window andb]. rewrite HZ, E.
            pose proof (parts_1 (known s + 1 - (known s + 0)) ltac:(lia)) as Q.
            pose proof (Z.mul_le_mono_nonneg_l _ _ step ltac:(lia) Q). lia. }
          unfold gap_by, first_by, over_by, tail, delays in *.
          set (n := need (State _ _ _ _ _ _ _ _ _ _ _ _ _)) in *. clearbody n.
          cbn [first over ready known device host todo rest due window] in *. rewrite O.
          replace (known s + 1 + (todo s - 1) - 1) with (known s + todo s - 1) by lia.
          generalize (future M (known s + todo s - 1) (rest s)). intros fu.
          replace (step * (todo s - 1 + fu)) with (step + step * (todo s - 1 - 1 + fu)) by ring.
          generalize (step * (todo s - 1 - 1 + fu)). intros. destruct (first s); lia.
      + specialize (NW eq_refl). clear NL ND. split; [exact P|]. unfold gap_by, first_by, over_by, need, tail, delays, lack, kv, gone in *.
        cbn [first over ready known device host todo rest due window andb] in *. rewrite O, HZ.
        replace (known s - (m2 s a + work a + 0)) with (known s - (m2 s a + work a)) by lia.
        replace (m2 s a + work a + 0) with (m2 s a + work a) by lia. destruct (first s); lia.
  Qed.
  Definition kept_promise now s z := first_by now s <= at_ (first z) /\ over_by now s <= at_ (over z)
    /\ gap_by now s <= at_ (over z) - at_ (first z) /\ arrived z = arrived s /\ wt z = wt s.
  Lemma promises now ss bs zz d : run I now ss bs zz d -> Forall R11 zz -> Forall inv zz -> Forall proper ss ->
    Forall2 (kept_promise now) ss zz.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros F V P.
    - clear P. induction F as [|z zz E F IH]; [constructor|]. inversion V as [|x y V1 V2]. subst.
      constructor; [|now apply IH]. unfold kept_promise, first_by, gap_by, R11, inv in *.
      specialize (V1 E). unfold over_by. destruct (first z), (over z); try congruence; cbn [at_]; lia.
    - destruct (loads_under _ _ _ _ block_ok L) as [_ LU]. pose proof (joint_fits I _ J) as FT. fold M in LU, FT.
      unfold R1 in T. assert (Forall proper (nexts M (t + D) ss aa) /\
        forall zz, Forall2 (kept_promise (t + D)) (nexts M (t + D) ss aa) zz -> Forall2 (kept_promise now) ss zz) as [A B].
      { assert (lasts fs (total M ss aa) = D) as DE by reflexivity. clearbody D. clear IH R F V zz d bs J L.
        revert P LU FT DE. generalize (total M ss aa). intros l P LU FT <-. revert P.
        induction LU as [|s a ss aa [L U] LU IH]; intros P; cbn [nexts].
        - split; [constructor|]. intros zz K. inversion K. constructor.
        - inversion P as [|x y P1 P2]. subst. destruct (IH P2) as [A B].
          destruct (promised t s a l now L U FT P1 T) as (Q1 & Q2 & Q3 & Q4).
          split; [now constructor|]. intros zz K. inversion K as [|x z y zz' K1 K2]. subst. constructor; [|now apply B].
          destruct K1 as (X1 & X2 & X3 & X4 & X5). destruct (step_wt M s a (t + lasts fs l)) as [Y1 Y2].
          unfold kept_promise. rewrite <- Y1, <- Y2. repeat split; lia || assumption. }
      apply B. apply IH; assumption.
  Qed.
End Alone.

(* --- The bound ----------------------------------------------------------------------------------------------- *)
Definition shortest_of I := fold_right (fun r x => Z.min (prompt r) x) (2 ^ 62) (requests I).
Definition simple I := (1 <=? block (mach I)) && forallb grows (cost I) && forallb (fun r => (0 <=? weight r)
  && forallb (fun c => 0 <=? returns (fst c)) (more r)) (requests I).
Section Value.
  Variable I : instance.
  Let fb := first_by I (shortest_of I) 0.
  Let ob := over_by I (shortest_of I) 0.
  Fixpoint lates_by qs ss {struct qs} := match qs, ss with
    | q :: qs, s :: ss => b2z (exceeds (fb s - arrived s) (to_first q) || exceeds (ob s - arrived s) (to_last q)
        || exceeds (gap_by I (shortest_of I) 0 s) (between q)) + lates_by qs ss
    | _, _ => 0
    end.
  Definition alone g := let ss := initial I in match g with
    | Whole Makespan => fold_right (fun s x => Z.max (ob s) x) 0 ss
    | Whole Busy => 0
    | Whole Ttft => sum (fun s => fb s - arrived s) ss
    | Whole Flow => sum (fun s => ob s - arrived s) ss
    | Whole Weighted => sum (fun s => wt s * (ob s - arrived s)) ss
    | Tail f n => nth n (fold_right place [] (map (fun s => (if f then fb s else ob s) - arrived s) ss)) 0
    | Late qs => lates_by qs ss
    end.
End Value.
Lemma place_mono l k x y : Forall2 Z.le l k -> x <= y -> Forall2 Z.le (place x l) (place y k).
Proof. intros H. revert x y. induction H as [|a b l k A H IH]; intros x y X; cbn [place]; constructor; auto; try lia.
  apply IH. lia. Qed.
Lemma sorted_mono l k : Forall2 Z.le l k -> Forall2 Z.le (fold_right place [] l) (fold_right place [] k).
Proof. induction 1; cbn [fold_right]; [constructor|]. now apply place_mono. Qed.
Lemma nth_mono l k n : Forall2 Z.le l k -> nth n l 0 <= nth n k 0.
Proof. intros H. revert n. induction H; intros [|n]; cbn [nth]; auto; lia. Qed.
Lemma map_mono {A B} (R : A -> B -> Prop) f g ss zz : Forall2 R ss zz -> (forall s z, R s z -> f s <= g z) ->
  Forall2 Z.le (map f ss) (map g zz).
Proof. intros H K. induction H; cbn [map]; constructor; auto. Qed.
Lemma sum_mono {A B} (R : A -> B -> Prop) f g ss zz : Forall2 R ss zz -> (forall s z, R s z -> f s <= g z) ->
  sum f ss <= sum g zz.
Proof. unfold sum. intros H K. induction H; cbn [fold_right]; [lia|]. specialize (K _ _ H). lia. Qed.
Lemma exceeds_mono x y l : x <= y -> exceeds x l = true -> exceeds y l = true.
Proof. destruct l; cbn [exceeds]; rewrite ?Z.ltb_lt; [lia|easy]. Qed.
Lemma busy_nonneg I now ss bs : 0 <= meter I Busy now ss bs.
Proof. revert now ss. induction bs as [|[t aa] bs IH]; intros now ss; cbn [meter]; [lia|].
  pose proof (lasts_1 (cost I) (total (mach I) ss aa)). specialize (IH (t + lasts (cost I) (total (mach I) ss aa)) (nexts (mach I) (t + lasts (cost I) (total (mach I) ss aa)) ss aa)).
  cbn [fee rate] in *. lia. Qed.
Lemma shortest_le I r : In r (requests I) -> shortest_of I <= prompt r.
Proof. unfold shortest_of. induction (requests I) as [|x rs IH]; [easy|]. cbn [fold_right]. intros [->|K]; [lia|].
  specialize (IH K). lia. Qed.

Theorem alone_certified I g bound : simple I && (bound <=? alone I g) = true ->
  forall schedule v, valid I schedule g v -> bound <= v.
Proof.
  unfold simple. rewrite !andb_true_iff, !Z.leb_le. intros [[[Q C] RQ] B] bs v (zz & d & R & F & ->). etransitivity; [exact B|].
  assert (Forall (fun s => 0 <= wt s) (initial I) /\ Forall (proper (shortest_of I)) (initial I)) as [W P].
  { rewrite forallb_forall in RQ. split; apply Forall_forall; intros s K; apply in_map_iff in K; destruct K as (r & <- & K);
    specialize (RQ r K); apply andb_true_iff in RQ; destruct RQ as [W X]; apply Z.leb_le in W; [exact W|].
    split; [now apply shortest_le|]. cbn [start_of rest]. rewrite forallb_forall in X. apply Forall_forall. intros c Y.
    apply Z.leb_le. now apply X. }
  assert (Forall inv zz) as V.
  { apply (run_inv _ _ _ _ _ _ R). apply Forall_forall. intros s K. apply in_map_iff in K. destruct K as (r & <- & _).
    unfold inv. cbn. congruence. }
  pose proof (promises I (shortest_of I) ltac:(lia) C 0 _ _ _ _ R F V P) as K.
  assert (Forall2 (fun s z => kept_promise I (shortest_of I) 0 s z /\ 0 <= wt s) (initial I) zz) as KW.
  { clear - K W. induction K; [constructor|]. inversion W. subst. constructor; auto. }
  pose proof (busy_nonneg I 0 (initial I) bs) as BN. rewrite (run_busy _ _ _ _ _ _ R) in BN. clear W P V B F R K. unfold kept_promise in KW. unfold alone, result. destruct g as [o|f n|qs].
  - destruct o; cbn [value].
    + induction KW as [|s z ss zz' (A & _) _ IH]; cbn [fold_right]; lia.
    + exact BN.
    + apply (sum_mono _ _ _ _ _ KW). intros s z ((A & A2 & A3 & A4 & A5) & A6). rewrite A4. lia.
    + apply (sum_mono _ _ _ _ _ KW). intros s z ((A & A2 & A3 & A4 & A5) & A6). rewrite A4, A5.
      apply Z.mul_le_mono_nonneg_l; lia.
    + apply (sum_mono _ _ _ _ _ KW). intros s z ((A & A2 & A3 & A4 & A5) & A6). rewrite A4. lia.
  - apply nth_mono, sorted_mono. apply (map_mono _ _ _ _ _ KW). intros s z ((A & A2 & A3 & A4 & A5) & A6). rewrite A4.
    destruct f; lia.
  - revert qs. induction KW as [|s z ss zz' (A & _) _ IH]; intros [|q qs]; cbn [lates_by lates]; try lia.
    specialize (IH qs). destruct A as (A & A2 & A3 & A4 & A5). unfold late. rewrite A4.
    assert (forall a b : bool, (a = true -> b = true) -> b2z a <= b2z b) as BM by (intros [] []; cbn; intuition lia || discriminate).
    apply Z.add_le_mono; [|exact IH]. apply BM. rewrite !orb_true_iff. intros [[H|H]|H]; [left; left|left; right|right];
    (eapply exceeds_mono; [|exact H]); lia.
Qed.
Print Assumptions alone_certified.

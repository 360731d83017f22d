(* Bounds by shares of time: nothing that a search proposes is believed, for all numbers are arguments.

   Busy time is at least the prices of all work and what is fixed, for the fewest batches and the fewest with prefills.
   So is the makespan, from the first arrival on. A request ends after the mean time of its work, half a batch, and what is after it; weighed, these means are late. *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices Alone Worth OneMachine Divide Tokens Levels.
Import ListNotations.
Open Scope Z_scope.

Definition well I := simple I && forallb (fun r => (1 <=? prompt r) && (1 <=? decode r)
  && forallb (fun c => (0 <=? duration (fst c)) && (1 <=? snd c)) (more r)) (requests I).
Lemma well_simple I : well I = true -> 0 < block (mach I) /\ forallb grows (cost I) = true
  /\ Forall (fine (shortest_of I)) (initial I) /\ Forall (fun s => over s = None /\ 0 <= wt s) (initial I).
Proof.
  unfold well, simple. rewrite !andb_true_iff, !Z.leb_le, !forallb_forall. intros [[[B G] S] W].
  split; [lia|]. split; [exact G|]. split; apply Forall_forall; intros s K; apply in_map_iff in K; destruct K as (r & <- & K);
    specialize (S r K); specialize (W r K); rewrite !andb_true_iff, !Z.leb_le, forallb_forall in *;
    destruct S as [S1 S2], W as [[W1 W2] W3]; [|split; [reflexivity|exact S1]].
  unfold fine, proper. cbn [start_of known device host rest over todo]. split; [split; [now apply shortest_le|]|].
  - apply Forall_forall. intros c C. apply Z.leb_le. now apply S2.
  - split; [lia|]. split; [lia|]. split; [|unfold kv, gone; cbn; lia].
    apply Forall_forall. intros c C. specialize (W3 c C). rewrite andb_true_iff, !Z.leb_le in W3. exact W3.
Qed.

Lemma b2z_0 b : 0 <= b2z b. Proof. destruct b; cbn [b2z]; lia. Qed.
Definition own_spans I := (once, 1) :: map (fun f => (own f, divisor f)) (cost I).
Lemma once_le M s a l : under (load_of M s a) l -> work a <> 0 -> charge M once s a <= b2z (0 <? ndec l + npre l).
Proof.
  intros ((_ & _ & _ & U) & _) W. pose proof (count_work M s a) as C. destruct (Z.eqb_spec (work a) 0); [contradiction|]. cbn [negb b2z] in C.
  assert (charge M once s a = ndec (load_of M s a) + npre (load_of M s a)) as ->.
  { unfold charge, linear, once. cbn [c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok c_blk c_pack]. destruct (generates s a); cbn [if0]; ring. }
  destruct (Z.ltb_spec 0 (ndec l + npre l)); cbn [b2z]; lia.
Qed.
Lemma own_le M f t s a : 0 < block M -> grows f = true -> local M t s a -> charge M (own f) s a <= value_of f (load_of M s a).
Proof.
  intros B G L. pose proof (load_under M t s a B L) as (U1 & U2 & U3). cbn [none tok ptok gen ndec npre dkv pkv pairs otok itok nout nin] in *.
  pose proof (count_work M s a) as C. unfold grows in G. cbn [forallb] in G. rewrite !andb_true_iff, !Z.leb_le in G. decompose [and] G. clear G.
  assert (charge M (own f) s a = linear (own f) (load_of M s a)) as ->.
  { unfold charge, own. cbn [c_blk c_pack]. destruct (generates s a); cbn [if0]; ring. }
  unfold linear, own, value_of. cbn [c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok].
  set (l := load_of M s a) in *. clearbody l.
  assert (0 <= above f * Z.max 0 (tok l - knee f) /\ 0 <= swap_out_tokens f * otok l /\ 0 <= swap_in_tokens f * itok l
    /\ 0 <= swap_outs f * nout l /\ 0 <= swap_ins f * nin l) as Z0 by (repeat split; apply Z.mul_nonneg_nonneg; lia).
  destruct (work a =? 0); cbn [negb b2z] in C.
  - replace (ndec l) with 0 by lia. replace (npre l) with 0 by lia. cbn. lia.
  - assert (ndec l = 1 /\ npre l = 0 \/ ndec l = 0 /\ npre l = 1) as [[-> ->]|[-> ->]] by lia; cbn [Z.add Z.ltb Z.compare b2z]; lia.
Qed.

Section Start.
  Variables (I : instance) (real : bool) (q : prices) (den : Z) (spans : list (prices * Z)) (least gap : Z).
  Let M := mach I.
  Definition tokens_of s := Token 0 (known s) (kv s) :: to_come s.
  Definition clock_0 s := clock real 0 0 s.
  Fixpoint placed t len l := match l with [] => [] | Token w n k :: l => let d := span I spans n k in let u := t + pause_of real w in
    let rest := len - (pause_of real w + d) in Piece (den * u) (worth M q n k) (den * rest) :: placed (u + d) rest l end.
  Definition long s := length_of I real spans (tokens_of s).
  Definition pieces s := placed (clock_0 s) (long s) (tokens_of s).
  Lemma placed_is l : forall t, placed t (length_of I real spans l) l = place I real q den spans t l.
  Proof.
    induction l as [|[w n k] l IH]; intros t; cbn [placed place]; [reflexivity|]. cbv zeta.
    replace (length_of I real spans (Token w n k :: l) - (pause_of real w + span I spans n k)) with (length_of I real spans l)
      by (unfold length_of; cbn [sum fold_right wait at_known from_kv]; unfold sum; lia). now rewrite IH.
  Qed.
  Definition ghost_0 s := let t := clock_0 s + pause_of real 0 in Ghost t (t + span I spans (known s) (kv s)) (worth M q (known s) (kv s)).
  Lemma job_0 s e : over s = None -> job_of I real q den spans s (ghost_0 s) e = Job (den * e) (pieces s).
  Proof. intros O. unfold job_of, work_of, pieces, long. rewrite O, placed_is. reflexivity. Qed.
  Lemma amount_place l : forall t, sum amount (place I real q den spans t l) = sum (fun x => worth M q (at_known x) (from_kv x)) l.
  Proof. unfold sum. induction l as [|[w n k] l IH]; intros t; cbn [place fold_right amount at_known from_kv]; [reflexivity|]. now rewrite IH. Qed.

  Hypothesis W : well I = true.
  Hypothesis ok : sensible I q den spans.
  Hypothesis gap_0 : 0 <= gap.
  Hypothesis share_ok : forall t ss aa, Forall2 (local M t) ss aa -> joint M (total M ss aa) ->
    charges M q ss aa + gap * b2z (0 <? ndec (total M ss aa) + npre (total M ss aa)) <= den * dur I real (total M ss aa).
  Hypothesis span_ok : forall t s a l, local M t s a -> under (load_of M s a) l -> under none l -> work a <> 0 ->
    Forall (fun f => charge M (fst f) s a <= snd f * dur I real l) spans.
  Hypothesis least_ok : forall t s a l, local M t s a -> under (load_of M s a) l -> proper (shortest_of I) s -> work a <> 0 ->
    least <= den * dur I real l.
  Fixpoint starts ss es := match ss, es with s :: ss, e :: es => Job (den * e) (pieces s) :: starts ss es | _, _ => [] end.
  Lemma start bs zz d : run I 0 (initial I) bs zz d -> Forall R11 zz ->
    let es := map (fun z => if real then at_ (over z) else batches I (initial I) bs) zz in
    Forall2 (fun s e => clock_0 s + long s <= e) (initial I) es /\ served least gap 0 (starts (initial I) es)
    /\ amounts (starts (initial I) es) <= spent I q (initial I) bs.
  Proof.
    intros R F es. destruct (well_simple I W) as (B & G & FI & OV).
    assert (Forall2 (keeps I real q spans 0 0) (initial I) (map ghost_0 (initial I))) as K.
    { clear R. induction FI as [|s ss FS _ IH]; cbn [map]; constructor; [|inversion OV; auto]. intros O. unfold ghost_0. cbn [begins closes open].
      destruct FS as (P & D & H & _ & T). destruct (T O). destruct ok as (_ & PQ & _). assert (0 <= kv s) by (unfold kv; destruct (gone s); lia).
      pose proof (worth_0 M q B PQ (known s) (kv s) ltac:(lia)). assert (pause_of real 0 = 0) as -> by (unfold pause_of; now destruct real).
      rewrite Z.add_0_r. fold (clock_0 s) M. split; [lia|]. split; [lia|]. split; [assumption|apply Z.le_refl]. }
    destruct (run_served I real q den spans (shortest_of I) least gap ok gap_0 share_ok span_ok least_ok 0 _ bs zz d R F FI 0 _ K) as (A & S & T).
    cbn [Z.add] in *. fold es in A, S, T. replace (den * (if real then 0 else 0)) with 0 in S by (destruct real; lia).
    assert (forall ss es', Forall (fun s => over s = None /\ 0 <= wt s) ss -> jobs I real q den spans ss (map ghost_0 ss) es' = starts ss es') as J.
    { clear. induction ss as [|s ss IH]; intros [|e es'] F; cbn [map jobs starts]; try reflexivity. inversion F as [|x y [O _] F2]. subst.
      rewrite job_0, IH by assumption. reflexivity. }
    rewrite J in S, T by exact OV. split; [|now split]. clear - A OV. induction A as [|s e ss es' X _ IH]; constructor; [|inversion OV; auto].
    inversion OV as [|x y [O _] _]. subst. unfold before in X. rewrite O in X. unfold long, length_of, tokens_of, clock_0, sum in *.
    cbn [fold_right wait at_known from_kv]. unfold pause_of at 1. destruct real; lia.
  Qed.
  Lemma starts_ends ss es x : 0 <= den -> Forall (fun e => e <= x) es -> Forall (fun j => ends j <= den * x) (starts ss es).
  Proof. intros D F. revert ss. induction F; intros [|s ss]; cbn [starts]; constructor; auto. cbn [ends]. nia. Qed.
  Lemma starts_left A (g : list piece -> A -> A) ss es z : length ss = length es ->
    fold_right (fun j x => g (left j) x) z (starts ss es) = fold_right (fun s x => g (pieces s) x) z ss.
  Proof. revert es. induction ss as [|s ss IH]; intros [|e es] L; cbn in *; try reflexivity; try discriminate. now rewrite IH by lia. Qed.
  Lemma starts_counted h k ss es : length ss = length es ->
    counted h k (starts ss es) = counted h k (map (fun s => Job 0 (pieces s)) ss).
  Proof. unfold counted, sum. revert es. induction ss as [|s ss IH]; intros [|e es] L; cbn [starts map fold_right left length] in *; try reflexivity; try discriminate.
    now rewrite IH by lia. Qed.
End Start.

Lemma nexts_length M t E ss aa : Forall2 (local M t) ss aa -> length (nexts M E ss aa) = length ss.
Proof. induction 1 as [|s a ss aa _ _ IH]; cbn [nexts length]; [reflexivity|now rewrite IH]. Qed.
Lemma run_length I now ss bs zz d : run I now ss bs zz d -> length ss = length zz.
Proof. induction 1 as [|now ss t aa bs zz d T L J D R IH]; [reflexivity|]. rewrite <- IH. symmetry. eapply nexts_length, L. Qed.

(* --- Busy time ----------------------------------------------------------------------------------------------- *)
Definition resource_ok M r := (1 <=? supply_of M r) && match r with ByPacking k => 1 <=? k | _ => true end.
Lemma resource_k M r : resource_ok M r = true -> 1 <= supply_of M r /\ (match r with ByPacking k => 1 <= k | _ => True end) /\ priced (unit_of r) = true.
Proof.
  unfold resource_ok. rewrite andb_true_iff, Z.leb_le. intros [A B]. split; [exact A|]. destruct r; try (split; [exact Logic.I|reflexivity]).
  apply Z.leb_le in B. split; [exact B|]. unfold priced. cbn [forallb unit_of c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok c_blk c_pack packs].
  rewrite !andb_true_iff, !Z.leb_le. lia.
Qed.
Lemma batches_0 I ss bs : 0 <= batches I ss bs.
Proof. revert ss. induction bs as [|[t aa] bs IH]; intros ss; cbn [batches]; [lia|]. apply Z.add_nonneg_nonneg; [apply b2z_0|apply IH]. Qed.
Section Busy.
  Variables (I : instance) (f : function) (r : resource) (h k : Z).
  Let M := mach I.
  Let U := supply_of M r.
  Definition work_in p := sum (fun s => sum (fun x => worth M p (at_known x) (from_kv x)) (tokens_of s)) (initial I).
  Definition fewest := let ss := initial I in let c := counted (U * h) (U * k) (map (fun s => Job 0 (pieces I false (unit_of r) U [(once, 1)] s)) ss) in
    Z.max (fold_right (fun s x => Z.max (long I false [(once, 1)] s) x) 0 ss) (if 0 <? c then h + k + ceil_div c U else 0).
  Definition fewest_prefills := if 1 <=? most_prefill M then ceil_div (work_in (unit_of ByPrefill)) (most_prefill M) else 0.
  Definition busy_bound := work_in (line f) + base f * fewest + extra f * fewest_prefills.  (* in units of 1 / divisor *)
  Definition busy_ok bound := well I && resource_ok M r && (0 <=? h) && priced (line f) && (divisor f * (bound - 1) <? busy_bound).
  Hypothesis listed : In f (cost I).
  Fixpoint prefilled ss bs {struct bs} := match bs with [] => 0 | Batch t aa :: bs => let l := total M ss aa in
    b2z (0 <? npre l) + prefilled (nexts M (t + lasts (cost I) l) ss aa) bs end.
  Lemma busy_run now ss bs zz d : 0 < block M -> forallb grows (cost I) = true -> run I now ss bs zz d ->
    spent I (line f) ss bs + base f * batches I ss bs + extra f * prefilled ss bs <= divisor f * d
    /\ (1 <= most_prefill M -> spent I (unit_of ByPrefill) ss bs <= most_prefill M * prefilled ss bs).
  Proof.
    intros B G. induction 1 as [now ss|now ss t aa bs zz d T L J D R [IH IH2]]; cbn [spent batches prefilled]; [lia|].
    pose proof (joint_fits I _ J) as FT. pose proof (line_le M B t ss aa L f ltac:(rewrite forallb_forall in G; now apply G)) as LE.
    pose proof (lasts_ge (cost I) f (total M ss aa) listed G) as V. 
    pose proof (most_prefill_le M B t ss aa L FT) as MP.
    unfold M in *. cbv zeta. fold D in V |- *. split.
    - rewrite (charges_linear (mach I) (line f)) by reflexivity. lia.
    - intros P. specialize (MP P). specialize (IH2 P). rewrite (charges_linear (mach I) (unit_of ByPrefill)) by reflexivity.
      assert (linear (unit_of ByPrefill) (total (mach I) ss aa) = ptok (total (mach I) ss aa)) as -> by (unfold linear; cbn [unit_of c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok]; ring). lia.
  Qed.
  Lemma work_starts real p den spans es : length (initial I) = length es -> amounts (starts I real p den spans (initial I) es) = work_in p.
  Proof.
    intros E. unfold amounts, sum at 1. rewrite (starts_left I real p den spans Z (fun l x => sum amount l + x)) by exact E.
    unfold work_in, sum at 2. induction (initial I) as [|s ss IH] in |- *; cbn [fold_right]; [reflexivity|]. rewrite IH. f_equal.
    unfold pieces, long. rewrite placed_is. apply amount_place.
  Qed.
  Theorem busy_certified bound : busy_ok bound = true -> forall bs v, valid I bs (Whole Busy) v -> bound <= v.
  Proof.
    unfold busy_ok. rewrite !andb_true_iff, !Z.leb_le, Z.ltb_lt. intros [[[[W RO] H0] PL] C] bs v (zz & d & R & F & ->).
    cbn [result value]. destruct (resource_k _ _ RO) as (RU & RK' & PR). change (1 <= U) in RU. destruct (well_simple I W) as (B & G & _). pose proof G as GA. rewrite forallb_forall in GA.
    pose proof (run_length _ _ _ _ _ _ R) as LEN.
    destruct (busy_run _ _ _ _ _ B G R) as [BR PB].
    (* prices of all work *)
    assert (work_in (line f) <= spent I (line f) (initial I) bs) as W1.
    { pose proof (start I true (line f) (divisor f) [] 0 0 W) as S. edestruct S as (_ & _ & X); [|lia| | | |exact R|exact F|].
      - split; [exact B|]. split; [exact PL|]. specialize (GA f listed). unfold grows in GA. apply andb_true_iff in GA. destruct GA as [GA _].
        apply Z.leb_le in GA. split; [lia|constructor].
      - intros t ss aa L J. rewrite Z.mul_0_l, Z.add_0_r, charges_linear by reflexivity. pose proof (line_le (mach I) B t ss aa L f (GA f listed)).
        pose proof (lasts_ge (cost I) f (total (mach I) ss aa) listed G). change (dur I true (total (mach I) ss aa)) with (lasts (cost I) (total (mach I) ss aa)).
        pose proof (GA f listed) as GF. unfold grows in GF.
        cbn [forallb] in GF. rewrite !andb_true_iff, !Z.leb_le in GF. decompose [and] GF.
        assert (0 <= base f * b2z (0 <? ndec (total (mach I) ss aa) + npre (total (mach I) ss aa))) by (apply Z.mul_nonneg_nonneg; [unfold base; lia|apply b2z_0]).
        assert (0 <= extra f * b2z (0 <? npre (total (mach I) ss aa))) by (apply Z.mul_nonneg_nonneg; [unfold extra; lia|apply b2z_0]). lia.
      - intros. constructor.
      - intros. pose proof (dur_0 I true l). specialize (GA f listed). unfold grows in GA. apply andb_true_iff in GA. destruct GA as [GA _].
        apply Z.leb_le in GA. nia.
      - rewrite work_starts in X by (now rewrite map_length). exact X. }
    (* prefills *)
    assert (fewest_prefills <= prefilled (initial I) bs) as W2.
    { unfold fewest_prefills. destruct (Z.leb_spec 1 (most_prefill M)) as [V|V].
      2: { generalize (initial I). clear. induction bs as [|[t aa] bs IH]; intros ss; cbn [prefilled]; [lia|]. specialize (IH (nexts M (t + lasts (cost I) (total M ss aa)) ss aa)).
        destruct (0 <? _); cbn [b2z]; lia. }
      specialize (PB V). pose proof (start I false (unit_of ByPrefill) (most_prefill M) [] 0 0 W) as S. edestruct S as (_ & _ & X); [|lia| | | |exact R|exact F|].
      - split; [exact B|]. split; [reflexivity|]. split; [lia|constructor].
      - intros t ss aa L J. rewrite Z.mul_0_l, Z.add_0_r. exact (shared_le (mach I) B t ss aa L (joint_fits I _ J) ByPrefill V Logic.I).
      - intros. constructor.
      - intros. pose proof (dur_0 I false l). nia.
      - rewrite work_starts in X by (now rewrite map_length). rewrite <- (Z.mul_comm (prefilled _ _)) in PB.
        pose proof (ceil_mono (work_in (unit_of ByPrefill)) (prefilled (initial I) bs * most_prefill M) (most_prefill M) ltac:(lia) ltac:(lia)) as Y.
        unfold ceil_div in Y at 2. rewrite <- Z.mul_opp_l, Z.div_mul in Y by lia. lia. }
    (* batches *)
    assert (fewest <= batches I (initial I) bs) as W3.
    { pose proof (start I false (unit_of r) U [(once, 1)] 0 0 W) as S. edestruct S as (X & Y & _); [|lia| | | |exact R|exact F|].
      - split; [exact B|]. split; [exact PR|]. split; [lia|]. constructor; [split; [reflexivity|cbn; lia]|constructor].
      - intros t ss aa L J. rewrite Z.mul_0_l, Z.add_0_r. exact (shared_le (mach I) B t ss aa L (joint_fits I _ J) r RU RK').
      - intros t s a l L UN _ WK. constructor; [|constructor]. cbn [fst snd]. pose proof (once_le (mach I) s a l UN WK). unfold dur. lia.
      - intros. pose proof (dur_0 I false l). nia.
      - unfold fewest. set (n := batches I (initial I) bs) in *. cbv zeta. apply Z.max_lub.
        + assert (0 <= n) as N0 by apply batches_0.
          clear - X N0. cbn [clock_0 clock] in X. revert X. generalize (initial I). clearbody n. induction zz as [|z zz IH]; intros [|s ss] X; inversion X; subst; cbn [fold_right]; [exact N0|].
          specialize (IH ss ltac:(assumption)). unfold clock_0, clock in *. lia.
        + pose proof (counted_le (U * h) (U * k) (U * n) _ _ _ _ Y) as CL. rewrite starts_counted in CL by (now rewrite map_length).
          specialize (CL ltac:(apply starts_ends; [lia|]; apply Forall_forall; intros e E; apply in_map_iff in E; destruct E as (z & <- & _); lia)).
          set (c := counted _ _ _) in *. destruct (Z.ltb_spec 0 c) as [P|P]; [|unfold n; apply batches_0].
          pose proof (ceil_mono c (U * (n - k - h)) U ltac:(lia) ltac:(nia)) as Q. unfold ceil_div in Q at 2.
          replace (- (U * (n - k - h))) with (- (n - k - h) * U) in Q by ring. rewrite Z.div_mul in Q by lia. lia. }
    assert (0 <= base f /\ 0 <= extra f) as [N1 N2].
    { specialize (GA f listed). unfold grows in GA. cbn [forallb] in GA. rewrite !andb_true_iff, !Z.leb_le in GA. unfold base, extra. lia. }
    pose proof (Z.mul_le_mono_nonneg_l _ _ _ N1 W3). pose proof (Z.mul_le_mono_nonneg_l _ _ _ N2 W2).
    assert (1 <= divisor f) by (specialize (GA f listed); unfold grows in GA; apply andb_true_iff in GA; now apply Z.leb_le).
    unfold busy_bound in C. assert (divisor f * (bound - 1) < divisor f * d) as Q by lia. nia.
  Qed.
End Busy.

(* --- Makespan: from the first arrival on there is no gap to gain ---------------------------------------------- *)
Definition bare s := device s = 0 /\ host s = 0.
Lemma bare_still M t s a : local M t s a -> bare s -> nout (load_of M s a) = 0 /\ nin (load_of M s a) = 0.
Proof. intros (_ & _ & _ & _ & _ & _ & G) [A B]. unfold R10, m1, h1 in G. rewrite A, B in G. cbn [load_of nout nin].
  replace (out a) with 0 by lia. replace (back a) with 0 by lia. now split. Qed.
Lemma over_bare M E s a t : local M t s a -> (over s <> None -> bare s) -> over (next M E s a) <> None -> bare (next M E s a).
Proof.
  intros L H O. pose proof L as (R2 & _ & _ & _ & _ & _ & G). unfold next, bare in *. destruct (Z.eqb_spec (work a) 0) as [W|W].
  - cbn [over device host] in *. destruct (H O) as [A B]. unfold R10, m2, h2, m1, h1 in *. rewrite A, B in *. lia.
  - destruct (R2 W) as [X _]. destruct (negb _); [cbn [over] in O; congruence|]. destruct (negb _); [cbn [over] in O; congruence|].
    destruct (rest s) as [|[c d] r]; [now split|cbn [over] in O; congruence].
Qed.
Lemma nexts_bare M E t ss aa : Forall2 (local M t) ss aa -> Forall (fun s => over s <> None -> bare s) ss ->
  Forall (fun s => over s <> None -> bare s) (nexts M E ss aa).
Proof. induction 1 as [|s a ss aa L _ IH]; intros F; cbn [nexts]; [constructor|]. inversion F. subst. constructor; [now apply (over_bare M E s a t)|auto]. Qed.
(* a batch whose requests are bare has work of one that has arrived *)
Lemma bare_works M t ss aa : Forall2 (local M t) ss aa -> Forall bare ss -> R10_batch (total M ss aa) -> exists s, In s ss /\ over s = None /\ ready s <= t.
Proof.
  unfold R10_batch. induction 1 as [|s a ss aa L _ IH]; intros F R; cbn [total] in R; [cbn in R; lia|]. inversion F as [|x y B F2]. subst.
  cbn [plus ndec npre nout nin] in R. destruct (bare_still M t s a L B) as [N1 N2]. pose proof (count_work M s a) as C.
  destruct (Z.eqb_spec (work a) 0) as [W|W]; cbn [negb b2z] in C.
  - destruct (IH F2 ltac:(lia)) as (z & K & O). exists z. split; [now right|exact O].
  - exists s. split; [now left|]. destruct L as (R2 & _). now apply R2.
Qed.
Lemma no_gap I now ss bs zz d : run I now ss bs zz d -> Forall R11 zz -> Forall (fun s => over s <> None -> bare s) ss ->
  existsb undone ss = true -> now + d <= last_end zz.
Proof.
  induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros F B U.
  - exfalso. apply existsb_exists in U. destruct U as (s & K & U). rewrite Forall_forall in F. specialize (F s K). unfold R11, undone in *.
    destruct (over s); [discriminate|congruence].
  - pose proof (nexts_bare (mach I) (t + D) t ss aa L B) as B'. unfold R1 in T. destruct (existsb undone (nexts (mach I) (t + D) ss aa)) eqn:N.
    + specialize (IH F B' eq_refl). lia.
    + destruct (nexts_ends _ _ _ _ _ L U N) as (s & K1 & K2). pose proof (run_keeps _ _ _ _ _ _ R s _ K1 K2).
      assert (d = 0); [|lia]. inversion R as [|n2 s2 t2 aa2 bs2 z2 d2 T2 L2 J2 D2 R2]; subst; [reflexivity|]. exfalso.
      assert (forall s, In s (nexts (mach I) (t + D) ss aa) -> over s <> None) as OV.
      { intros x X O. assert (existsb undone (nexts (mach I) (t + D) ss aa) = true); [|congruence]. apply existsb_exists. exists x. split; [exact X|]. unfold undone. now rewrite O. }
      destruct (bare_works _ _ _ _ L2) as (x & X1 & X2 & _); [|apply J2|now apply (OV x X1)].
      apply Forall_forall. intros x X. rewrite Forall_forall in B'. apply B'; [exact X|now apply OV].
Qed.
Definition earliest I := match requests I with [] => 0 | r :: rs => fold_right (fun r x => Z.min (arrival r) x) (arrival r) rs end.
Lemma earliest_le I s : In s (initial I) -> earliest I <= ready s.
Proof.
  intros K. apply in_map_iff in K. destruct K as (r & <- & K). unfold earliest. cbn [start_of ready]. destruct (requests I) as [|x rs]; [destruct K|].
  assert (forall rs, fold_right (fun r y => Z.min (arrival r) y) (arrival x) rs <= arrival x) as A by (clear; induction rs; cbn [fold_right]; lia).
  destruct K as [->|K]; [apply A|]. induction rs as [|y rs IH]; [destruct K|]. cbn [fold_right]. destruct K as [->|K]; [lia|]. specialize (IH K). lia.
Qed.
Theorem makespan_certified I f r h k bound : In f (cost I) -> busy_ok I f r h k (bound - earliest I) = true -> initial I <> [] ->
  forall bs v, valid I bs (Whole Makespan) v -> bound <= v.
Proof.
  intros K C NE bs v (zz & d & R & F & ->). pose proof (busy_certified I f r h k K _ C bs d (ex_intro _ zz (ex_intro _ d (conj R (conj F eq_refl))))) as D.
  change (result (Whole Makespan) zz d) with (last_end zz).
  assert (Forall bare (initial I)) as B by (apply Forall_forall; intros s S; apply in_map_iff in S; destruct S as (q & <- & _); now split).
  assert (Forall (fun s => over s <> None -> bare s) (initial I)) as B2 by (eapply Forall_impl; [|exact B]; auto).
  assert (existsb undone (initial I) = true) as U.
  { unfold initial in *. destruct (requests I); [now elim NE|reflexivity]. }
  pose proof (earliest_le I) as EL. enough (earliest I + d <= last_end zz) by lia. inversion R as [|n2 s2 t aa bs2 z2 d2 T L J D2 R2]; subst.
  - exfalso. apply existsb_exists in U. destruct U as (s & S & U). rewrite Forall_forall in F. specialize (F s S). unfold R11, undone in *.
    destruct (over s); [discriminate|congruence].
  - destruct (bare_works _ _ _ _ L B ltac:(apply J)) as (s & S1 & _ & S2). specialize (EL s S1).
    assert (run I t (initial I) (Batch t aa :: bs2) zz (D2 + d2)) as R3 by (constructor; try assumption; unfold R1; lia).
    pose proof (no_gap I t _ _ _ _ R3 F B2 U). fold D2. lia.
Qed.

(* --- Sums of flow times -------------------------------------------------------------------------------------- *)
Lemma waits_grow n : forall S l, Forall (fun x => 0 <= wait x) l -> Forall (fun x => 0 <= wait x) (grow n S l).
Proof. induction n as [|n IH]; intros S l F; cbn [grow]; [exact F|]. constructor; [cbn; lia|auto]. Qed.
Lemma waits_following r : forall S n, Forall (fun c : call * Z => 0 <= duration (fst c) /\ 1 <= snd c) r -> Forall (fun x => 0 <= wait x) (following S n r).
Proof.
  induction r as [|[c d] r IH]; intros S n F; cbn [following]; apply waits_grow; [constructor|]. inversion F as [|x y [D _] F2]. subst.
  constructor; [exact D|now apply IH].
Qed.
Lemma run_weigh I o now ss bs zz d : run I now ss bs zz d -> map (weigh o) zz = map (weigh o) ss.
Proof.
  induction 1 as [|now ss t aa bs zz d T L J D R IH]; [reflexivity|]. rewrite IH. clear - L. generalize (t + D). intros E.
  induction L as [|s a ss aa _ _ IH]; cbn [nexts map]; [reflexivity|]. rewrite IH. f_equal. destruct (step_wt (mach I) s a E) as [W _].
  destruct o; cbn [weigh]; congruence.
Qed.
Definition is_flow o := match o with Flow | Weighted => true | _ => false end.
Lemma flow_value o zz d : is_flow o = true -> value o zz d = sum (fun z => weigh o z * at_ (over z)) zz - sum (fun z => weigh o z * arrived z) zz.
Proof.
  intros O. destruct o; try discriminate; cbn [value weigh]; unfold sum; induction zz as [|z zz IH]; cbn [fold_right]; lia.
Qed.
Lemma sum_parts c l ps : sum (fun p => amount p * (2 * c - l - 2 * behind p)) ps
  = 2 * c * sum amount ps - l * sum amount ps - 2 * sum (fun p => amount p * behind p) ps.
Proof. unfold sum. induction ps as [|p ps IH]; cbn [fold_right]; lia. Qed.

Section Flow.
  Variables (I : instance) (o : objective) (f : function) (r : resource) (Q : Z) (levels : list Z).
  Definition den_of := divisor f * (supply_of (mach I) r * room_pre (mach I)).
  Definition least_of := den_of * step I (shortest_of I).
  Definition rated_of s := let ps := pieces I true (mixed (mach I) f r) den_of (own_spans I) s in let w := sum amount ps in
    (if w =? 0 then 0 else Q * weigh o s / w, ps).
  Definition own_part s (x : rated) := let w := sum amount (snd x) in
    if w =? 0 then 2 * Q * den_of * (weigh o s * (clock_0 true s + long I true (own_spans I) s))
    else fst x * (least_of * w + 2 * sum (fun p => amount p * behind p) (snd x)).
  Fixpoint own_parts ss xs {struct ss} := match ss, xs with s :: ss, x :: xs => own_part s x + own_parts ss xs | _, _ => 0 end.
  Definition flow_ok bound := let ss := initial I in let xs := map rated_of ss in
    well I && resource_ok (mach I) r && priced (mixed (mach I) f r) && forallb (fun p => priced (fst p)) (own_spans I)
    && is_flow o && (0 <? Q) && falling levels && forallb in_order xs
    && (2 * Q * den_of * (bound + sum (fun s => weigh o s * arrived s) ss - 1) <? climb xs None levels [] + own_parts ss xs).

  Fixpoint owed ss es {struct ss} := match ss, es with s :: ss, e :: es => weigh o s * e + owed ss es | _, _ => 0 end.
  Lemma owed_is ss zz : map (weigh o) zz = map (weigh o) ss -> owed ss (map (fun z => at_ (over z)) zz) = sum (fun z => weigh o z * at_ (over z)) zz.
  Proof. revert ss. unfold sum. induction zz as [|z zz IH]; intros [|s ss] E; cbn [map owed fold_right] in *; try reflexivity; try discriminate.
    injection E as E1 E2. rewrite (IH ss E2), E1. reflexivity. Qed.
  Lemma item_le s e : 0 < Q -> 0 < den_of -> 0 <= weigh o s -> 0 <= clock_0 true s + long I true (own_spans I) s <= e -> in_order (rated_of s) = true ->
    fst (rated_of s) * promised least_of (Job (den_of * e) (snd (rated_of s))) + own_part s (rated_of s) <= 2 * Q * den_of * (weigh o s * e).
  Proof.
    intros Q0 D W E O. unfold in_order in O. rewrite !andb_true_iff, forallb_forall in O. destruct O as [[_ O] _].
    unfold promised, own_part. cbn [ends left]. rewrite sum_parts. unfold rated_of in *. cbv zeta in *. cbn [fst snd] in *.
    set (ps := pieces _ _ _ _ _ _) in *. assert (0 <= sum amount ps) as S.
    { clearbody ps. unfold sum. induction ps as [|p l IH]; cbn [fold_right]; [lia|]. pose proof (O p (or_introl eq_refl)) as P. apply Z.leb_le in P.
      specialize (IH (fun x K => O x (or_intror K))). lia. }
    destruct (Z.eqb_spec (sum amount ps) 0) as [N|N].
    - rewrite Z.mul_0_l, Z.add_0_l. apply Z.mul_le_mono_nonneg_l; [nia|]. apply Z.mul_le_mono_nonneg_l; lia.
    - pose proof (Z.mul_div_le (Q * weigh o s) (sum amount ps) ltac:(lia)) as DV. set (rho := Q * weigh o s / sum amount ps) in *.
      set (b := sum (fun p => amount p * behind p) ps). set (w := sum amount ps) in *. clearbody rho b w.
      pose proof (Z.mul_le_mono_nonneg_l _ _ (2 * (den_of * e)) ltac:(nia) DV).
      replace (rho * (2 * (den_of * e) * w - least_of * w - 2 * b) + rho * (least_of * w + 2 * b)) with (2 * (den_of * e) * (w * rho)) by ring.
      replace (2 * Q * den_of * (weigh o s * e)) with (2 * (den_of * e) * (Q * weigh o s)) by ring. exact H.
  Qed.
  Hypothesis listed : In f (cost I).
  Theorem flow_certified bound : flow_ok bound = true -> forall bs v, valid I bs (Whole o) v -> bound <= v.
  Proof.
    unfold flow_ok. rewrite !andb_true_iff, !Z.ltb_lt. intros [[[[[[[[W RO] PQ] PS] IF] Q0] FL] IO] C] bs v (zz & d & R & F & ->). cbn [result].
    destruct (resource_k _ _ RO) as (RU & RK & PR). destruct (well_simple I W) as (B & G & FI & OV). pose proof G as GA. rewrite forallb_forall in GA.
    assert (forall g, In g (cost I) -> 1 <= divisor g) as DV by (intros g K; specialize (GA g K); unfold grows in GA; apply andb_true_iff in GA; now apply Z.leb_le).
    assert (0 < den_of) as D0. { unfold den_of. specialize (DV f listed). assert (1 <= room_pre (mach I)) by (unfold room_pre; lia). nia. }
    set (es := map (fun z => at_ (over z)) zz).
    assert (Forall2 (fun s e => clock_0 true s + long I true (own_spans I) s <= e) (initial I) es
      /\ served least_of 0 0 (starts I true (mixed (mach I) f r) den_of (own_spans I) (initial I) es)) as [A S].
    { pose proof (start I true (mixed (mach I) f r) den_of (own_spans I) least_of 0 W) as S. edestruct S as (X & Y & _); [|lia| | | |exact R|exact F|split; [exact X|exact Y]].
      - split; [exact B|]. split; [exact PQ|]. split; [exact D0|]. rewrite forallb_forall in PS. apply Forall_forall. intros p P. split; [now apply PS|].
        destruct P as [<-|P]; [cbn; lia|]. apply in_map_iff in P. destruct P as (g & <- & P). specialize (DV g P). cbn. lia.
      - intros t ss aa L J. rewrite Z.mul_0_l, Z.add_0_r. apply (divided (mach I) B t ss aa L (joint_fits I _ J) f r); auto. now apply lasts_ge.
      - intros t s a l L UN N K. constructor.
        + cbn [fst snd]. pose proof (once_le (mach I) s a l UN K). pose proof (lasts_1 (cost I) l). unfold dur. destruct (0 <? _); cbn [b2z] in *; lia.
        + apply Forall_forall. intros p P. apply in_map_iff in P. destruct P as (g & <- & P). cbn [fst snd].
          pose proof (own_le (mach I) g t s a B (GA g P) L). pose proof (value_mono g _ _ (GA g P) UN). pose proof (lasts_ge (cost I) g l P G). unfold dur. lia.
      - intros t s a l L UN PP K. unfold least_of. apply Z.mul_le_mono_nonneg_l; [lia|]. exact (step_D I (shortest_of I) B G t s a l L UN PP K). }
    pose proof (run_length _ _ _ _ _ _ R) as LEN.
    assert (Forall2 (fun x j => snd x = left j) (map rated_of (initial I)) (starts I true (mixed (mach I) f r) den_of (own_spans I) (initial I) es)) as SM.
    { clear - A. induction A as [|s e ss es' _ _ IH]; cbn [map starts]; constructor; [reflexivity|exact IH]. }
    pose proof (climb_le least_of 0 _ _ SM IO S levels FL) as CL.
    assert (dot least_of (fun r => r) (map rated_of (initial I)) (starts I true (mixed (mach I) f r) den_of (own_spans I) (initial I) es)
      + own_parts (initial I) (map rated_of (initial I)) <= 2 * Q * den_of * owed (initial I) es) as TOT.
    { clear - A IO OV FI Q0 D0. revert IO OV FI. induction A as [|s e ss es' X A2 IH]; cbn [map starts dot own_parts owed forallb]; [lia|].
      rewrite andb_true_iff. intros [IO1 IO2] OV FI. inversion OV as [|a1 a2 [O1 O2] OV2]. inversion FI as [|b1 b2 F1 F2]. subst. specialize (IH IO2 OV2 F2).
      assert (0 <= long I true (own_spans I) s) as L0.
      { unfold long. apply length_0. constructor; [cbn; lia|]. apply waits_following. apply F1. }
      pose proof (item_le s e Q0 D0 ltac:(destruct o; cbn [weigh]; lia) ltac:(unfold clock_0, clock in *; lia) IO1) as IT. cbn [fst snd] in IT.
      change (snd (rated_of s)) with (pieces I true (mixed (mach I) f r) den_of (own_spans I) s) in IT at 1. lia. }
    rewrite (flow_value o zz d IF), <- (owed_is (initial I) zz) by (eapply run_weigh; exact R). fold es.
    rewrite (run_arrived _ _ _ _ _ _ o R). set (x := sum _ (initial I)) in *. set (w := owed _ es) in *.
    assert (2 * Q * den_of * (bound + x - 1) < 2 * Q * den_of * w) as Z0 by lia. assert (0 < 2 * Q * den_of) by nia. nia.
  Qed.
End Flow.

Definition shares_ok I o place r h k Q levels bound := match nth_error (cost I) place with
  | None => false
  | Some f => match o with
    | Busy => busy_ok I f r h k bound
    | Makespan => match requests I with [] => false | _ => busy_ok I f r h k (bound - earliest I) end
    | _ => flow_ok I o f r Q levels bound end end.
Theorem shares_certified I o place r h k Q levels bound : shares_ok I o place r h k Q levels bound = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof.
  unfold shares_ok. destruct (nth_error (cost I) place) as [f|] eqn:E; [|discriminate]. apply nth_error_In in E.
  destruct o; try (apply flow_certified; exact E); [|now apply busy_certified].
  destruct (requests I) as [|x rs] eqn:N; [discriminate|]. intros C. apply (makespan_certified I f r h k bound E C).
  unfold initial. rewrite N. discriminate.
Qed.
Print Assumptions shares_certified.

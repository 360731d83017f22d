(* Bounds by prices of work over time: nothing that a search proposes is believed, for all numbers are arguments.

   A part of the fixed time of a batch is shared (`divided_part`); the rest is paid for by speed. Each request takes and
   pays at least what its plan says (`plan_sound`), and all together pay at most all prices. *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices Alone Worth OneMachine Divide Tokens Shares Tolls Apart Tangent Ends Plans.
Import ListNotations.
Open Scope Z_scope.

(* In units of 1 / (1024 * divisor * U * V) ticks, as in Divide.v: m 1024ths of the fixed part are shared. *)
Definition share M m f r := blend (1024 * (supply_of M r * room_pre M)) (line f) (m * base f * room_pre M) (unit_of r) (1024 * surcharge M f * supply_of M r).
Definition unit_ticks M f r := 1024 * (divisor f * (supply_of M r * room_pre M)).
Definition gap_of M m f r := (1024 - m) * (base f * (supply_of M r * room_pre M)).
Lemma divided_part M t ss aa m f r D : 0 < block M -> Forall2 (local M t) ss aa -> let l := total M ss aa in fitsb M l = true -> grows f = true ->
  1 <= supply_of M r -> (match r with ByPacking k => 1 <= k | _ => True end) -> 0 <= m <= 1024 -> value_of f l <= divisor f * D ->
  charges M (share M m f r) ss aa + gap_of M m f r * b2z (0 <? ndec l + npre l) <= unit_ticks M f r * D.
Proof.
  intros B L l J G U K MM V. pose proof (line_le M B t ss aa L f G) as LE. pose proof (shared_le M B t ss aa L J r U K) as S. unfold share.
  rewrite charges_blend, (charges_linear M (line f)) by reflexivity. fold l in LE, S |- *. unfold grows in G. cbn [forallb] in G.
  rewrite !andb_true_iff, !Z.leb_le in G. decompose [and] G. clear G.
  assert (0 <= base f) by (unfold base; lia). assert (1 <= room_pre M) as R1 by (unfold room_pre; lia).
  assert (surcharge M f * ptok l <= room_pre M * (extra f * b2z (0 <? npre l))) as P.
  { unfold surcharge, room_pre. assert (0 <= extra f) by (unfold extra; lia). destruct (Z.leb_spec 1 (most_prefill M)) as [Q|Q].
    - pose proof (most_prefill_le M B t ss aa L J Q) as MP. fold l in MP. rewrite Z.max_r by lia. nia.
    - destruct (0 <? npre l); cbn [b2z]; nia. }
  unfold gap_of, unit_ticks. set (u := supply_of M r) in *. set (v := room_pre M) in *. set (c := charges M (unit_of r) ss aa) in *.
  set (w := b2z (0 <? ndec l + npre l)) in *. set (x := extra f * b2z (0 <? npre l)) in *. clearbody u v c w x.
  pose proof (Z.mul_le_mono_nonneg_l _ _ (m * (base f * v)) ltac:(nia) S) as X1.
  pose proof (Z.mul_le_mono_nonneg_l _ _ u ltac:(lia) P) as X2.
  pose proof (Z.mul_le_mono_nonneg_l _ _ (u * v) ltac:(nia) LE) as X3.
  pose proof (Z.mul_le_mono_nonneg_l _ _ (u * v) ltac:(nia) V) as X4. clear - X1 X2 X3 X4. lia.
Qed.

Fixpoint zip_add (l m : list Z) := match l, m with x :: l, y :: m => x + y :: zip_add l m | [], m => m | l, [] => l end.
Lemma zip_add_nth l : forall m k, nth k (zip_add l m) 0 = nth k l 0 + nth k m 0.
Proof. induction l as [|x l IH]; intros [|y m] [|k]; cbn [zip_add nth]; try lia. apply IH. Qed.

Section Speed.
  Variables (O L e gap least N : Z) (root : Z -> Z -> Z -> Z -> Z) (prices : list Z).
  Hypotheses (O_0 : 0 <= O) (L_pos : 0 < L) (gap_0 : 0 <= gap) (e_ok : 0 <= e <= 1024) (NP : 0 < N).
  Hypothesis prices_0 : forallb (Z.leb 0) prices = true.
  Definition no_later b qs := fold_right (fun q x => Z.min (from q) x) b qs.
  Definition plan_value W ps first0 pl := let bss := map (combine (rungs pl)) (tries pl) in
    if forallb right bss && forallb (Z.leb 0) (dues pl) && forallb (fun q => 0 <=? behind q) ps then
      if split pl then match ps with [] => None | p :: qs => let b := no_later first0 qs in let s0 := slot_of O L (from p) in
        let bss0 := map (fun z => [(amount p, z)]) (firsts pl) in
        if forallb right bss0 && (O <=? from p) && (from p <=? b) && forallb (fun x => (from p <=? x) && (x <=? opens O L (s0 + slots pl))) (cells pl)
        then Some (by_cells O L W (slots pl) s0 p (map (made e gap least N root prices (slots pl) (dues pl) s0 [p]) bss0)
          (map (made e gap least N root prices (slots pl) (dues pl) s0 qs) ([] :: bss)) b first0 b first0 (cells pl)) else None end
      else let b := no_later first0 ps in let s0 := slot_of O L b in
        if O <=? b then Some (cell O L W (slots pl) s0 (map (made e gap least N root prices (slots pl) (dues pl) s0 ps) ([] :: bss)) b first0) else None
    else None.
  Let price := in_slots O L prices.
  Let payer pl := payer_of e gap least N root price (in_slots O L (dues pl)).
  Lemma no_later_le b qs : no_later b qs <= b /\ Forall (fun q => no_later b qs <= from q) qs.
  Proof. unfold no_later. induction qs as [|q qs [A B]]; cbn [fold_right]; [split; [lia|constructor]|]. split; [lia|]. constructor; [lia|].
    eapply Forall_impl; [|exact B]. cbn beta. lia. Qed.
  Lemma later_fits k c F b qs : fair price e gap least k -> since k = Z.max F b -> till k = c -> Forall (fun q => b <= from q) qs ->
    forallb (fun q => 0 <=? behind q) qs = true -> fits price e gap least k (Job c (map (later F) qs)).
  Proof.
    intros K S T B H. split; [exact K|]. split; [exact T|]. cbn [left]. rewrite forallb_forall in H. rewrite Forall_forall in B. apply Forall_forall. intros q Q.
    apply in_map_iff in Q. destruct Q as (x & <- & X). specialize (B x X). specialize (H x X). apply Z.leb_le in H. unfold later. cbn [from behind]. lia.
  Qed.
  Lemma worth_later k c F qs : worth_of k (Job c (map (later F) qs)) = sum (fun q => gain k (amount q)) qs.
  Proof. unfold worth_of, sum. cbn [left]. induction qs as [|q qs IH]; cbn [map fold_right]; [reflexivity|]. rewrite IH. reflexivity. Qed.
  Lemma plan_sound W ps first0 pl V F c : 0 <= W -> plan_value W ps first0 pl = Some V -> first0 <= c ->
    (if split pl then dated 0 false F (Job c ps) else F = 0) -> exists kh ko j1 j2, pair_of (negb (split pl)) F (Job c ps) = [j1; j2] /\
    fits price e gap least kh j1 /\ fits price e gap least ko j2 /\ (forall u, fees u [kh; ko] <= in_slots O L (dues pl) u)
    /\ 0 <= since kh /\ 0 <= since ko /\ V <= W * c + (worth_of kh j1 + worth_of ko j2)
      - (upto (toll kh) (since kh) (till kh) + upto (toll ko) (since ko) (till ko)).
  Proof.
    intros W0. unfold plan_value. set (bss := map (combine (rungs pl)) (tries pl)). destruct (forallb right bss && _ && _) eqn:CK; [|discriminate].
    rewrite !andb_true_iff in CK. destruct CK as [[R D0] BH]. assert (Forall (fun bs => right bs = true) bss) as RF by (apply Forall_forall; now apply forallb_forall).
    pose proof (in_slots_0 O L (dues pl) D0) as P0. pose proof (in_slots_0 O L prices prices_0) as Q0.
    assert (forall bs a b, right bs = true -> fair price e gap least (payer pl bs a b)) as FA by (intros; now apply payer_fair).
    assert (forall kh ko, fee kh = in_slots O L (dues pl) -> fee ko = in_slots O L (dues pl) -> (till kh <= since ko) ->
      forall u, fees u [kh; ko] <= in_slots O L (dues pl) u) as FE.
    { intros kh ko E1 E2 E u. unfold fees. cbn [sum fold_right]. rewrite E1, E2. specialize (P0 u).
      destruct (Z.leb_spec (since kh) u), (Z.ltb_spec u (till kh)), (Z.leb_spec (since ko) u), (Z.ltb_spec u (till ko)); cbn [andb if0]; lia. }
    destruct (split pl); cbn [negb].
    - destruct ps as [|p qs]; [discriminate|]. set (b := no_later first0 qs). set (s0 := slot_of O L (from p)). set (bss0 := map (fun z => [(amount p, z)]) (firsts pl)).
      destruct (_ && _) eqn:CK; [|discriminate]. rewrite !andb_true_iff, !Z.leb_le in CK. destruct CK as [[[R0 rO] rb] CE]. intros [= <-] FC DT.
      cbn [forallb] in BH. apply andb_true_iff in BH. destruct BH as [BP BQ]. apply Z.leb_le in BP. destruct (no_later_le first0 qs) as [NL NQ]. fold b in NL, NQ.
      unfold dated in DT. cbn [left ends] in DT. destruct DT as [F0 FK].
      assert (Forall (fun bs => right bs = true) bss0) as RF0 by (apply Forall_forall; now apply forallb_forall).
      destruct (cells_le O L e gap least N root prices L_pos gap_0 e_ok NP prices_0 W (slots pl) (dues pl) W0 s0 p qs _ _ bss0 bss b first0 eq_refl eq_refl RF0 RF rO eq_refl rb NL BP
        (cells pl) CE b first0 F c) as (bs0 & bs & B1 & B2 & B3); try lia.
      { pose proof (slot_bounds O L L_pos (from p) rO). unfold s0. lia. }
      exists (payer pl bs0 (from p) F), (payer pl bs (Z.max F b) c). do 2 eexists. split; [reflexivity|]. cbn [left ends].
      split. { split; [now apply FA|]. split; [reflexivity|]. constructor; [cbn; lia|constructor]. }
      split; [now apply (later_fits _ c F b qs); auto|]. split; [apply FE; try reflexivity; cbn; lia|].
      split; [cbn; lia|]. split; [cbn; lia|]. rewrite worth_later. unfold worth_of at 1. cbn [left sum fold_right amount].
      unfold payer, payer_of, price. cbn [since till toll gain]. etransitivity; [exact B3|]. unfold toll_at, amount_in. lia.
    - set (b := no_later first0 ps). set (s0 := slot_of O L b). destruct (Z.leb_spec O b) as [OB|OB]; [|discriminate]. intros [= <-] FC ->.
      destruct (no_later_le first0 ps) as [NL NQ]. fold b in NL, NQ.
      destruct (cell_le O L e gap least N root prices L_pos e_ok W (slots pl) (dues pl) W0 s0 ps bss b first0 c RF) as (bs & B1 & B2); try lia.
      { pose proof (slot_bounds O L L_pos b OB). unfold s0. lia. }
      exists (payer pl [] 0 0), (payer pl bs b c). do 2 eexists. split; [reflexivity|]. cbn [left ends].
      split. { split; [now apply FA|]. split; [reflexivity|]. constructor. }
      split. { apply (later_fits _ c 0 b ps); auto. cbn. lia. } split; [apply FE; try reflexivity; cbn; lia|].
      split; [cbn; lia|]. split; [cbn; lia|]. rewrite worth_later. unfold worth_of at 1. cbn [left sum fold_right].
      unfold payer, payer_of, price. cbn [since till toll gain]. assert (forall f, upto f 0 0 = 0) as U0 by reflexivity. rewrite U0. etransitivity; [exact B2|]. unfold toll_at, amount_in. lia.
  Qed.

  (* All requests. *)
  Variables (U : Z) (o : objective) (den : Z) (pieces_of : state -> list piece) (lone : state -> Z).
  Hypotheses (U_0 : 0 < U) (den_0 : 0 < den).
  Fixpoint values ss pls {struct ss} := match ss, pls with
    | [], [] => Some 0
    | s :: ss, pl :: pls => match plan_value (U * weigh o s) (pieces_of s) (den * lone s) pl, values ss pls with Some v, Some x => Some (v + x) | _, _ => None end
    | _, _ => None end.
  Fixpoint jobs_of ss es := match ss, es with s :: ss, e :: es => Job (den * e) (pieces_of s) :: jobs_of ss es | _, _ => [] end.
  Definition dues_in u pls := sum (fun pl => in_slots O L (dues pl) u) pls.
  Lemma fees_cons u k ks : fees u (k :: ks) = fees u [k] + fees u ks.
  Proof. unfold fees, sum. cbn [fold_right]. lia. Qed.
  Lemma values_length ss : forall pls V, values ss pls = Some V -> length pls = length ss.
  Proof.
    induction ss as [|s ss IH]; intros [|pl pls] V H; cbn [values length] in *; try discriminate; [reflexivity|].
    destruct (plan_value _ _ _ _); [|discriminate]. destruct (values ss pls) eqn:E; [|discriminate]. now rewrite (IH _ _ E).
  Qed.
  Lemma values_le ss es : Forall2 (fun s e => lone s <= e) ss es -> Forall (fun s => 0 <= weigh o s) ss -> forall pls gs V, values ss pls = Some V ->
    agrees gs (map (fun pl => (negb (split pl), 0)) pls) -> all_dated 0 gs (jobs_of ss es) -> exists ks, Forall2 (fits price e gap least) ks (pairs gs (jobs_of ss es))
    /\ (forall u, fees u ks <= dues_in u pls) /\ V <= U * den * owed o ss es + worths ks (pairs gs (jobs_of ss es)) - tolls_from 0 ks.
  Proof.
    induction 1 as [|s c ss es E _ IH]; intros WF pls gs V VS A D; destruct pls as [|pl pls]; try discriminate.
    - injection VS as <-. inversion A. subst. exists []. split; [constructor|]. split; [intros u; cbn; lia|]. cbn. lia.
    - cbn [values] in VS. destruct (plan_value _ _ _ _) as [v|] eqn:PV; [|discriminate]. destruct (values ss pls) as [x|] eqn:VX; [|discriminate]. injection VS as <-.
      inversion WF as [|y1 y2 W1 W2]. subst. inversion A as [|g d gs2 ds2 [A1 A2] A3]. subst. inversion D as [|g2 j2 gs3 js2 D1 D2]. subst.
      destruct (IH W2 pls gs2 x VX A3 D2) as (ks & K1 & K2 & K3). cbn [fst snd] in A1, A2.
      destruct (plan_sound (U * weigh o s) (pieces_of s) (den * lone s) pl v (snd g) (den * c) ltac:(nia) PV ltac:(nia)) as (kh & ko & j1 & j2 & P1 & P2 & P3 & P4 & P5 & P6 & P7).
      { rewrite A1 in D1, A2. destruct (split pl); cbn [negb] in *; [exact D1|now apply A2]. }
      exists (kh :: ko :: ks). cbn [jobs_of pairs]. rewrite A1, P1. cbn [app]. split; [constructor; [exact P2|constructor; [exact P3|exact K1]]|]. split.
      { intros u. rewrite (fees_cons u kh), (fees_cons u ko). specialize (K2 u). specialize (P4 u). rewrite (fees_cons u kh) in P4. unfold dues_in in *. cbn [sum fold_right] in *. unfold sum in *. lia. }
      cbn [worths owed]. unfold tolls_from in *. cbn [sum fold_right]. unfold sum in K3. rewrite (Z.max_r 0 (since kh)), (Z.max_r 0 (since ko)) by assumption. lia.
  Qed.
End Speed.
Fixpoint within_prices e gap (ds ps : list Z) := match ds with [] => true | d :: ds => match ps with
  | [] => (d <=? 0) && within_prices e gap ds [] | p :: ps => (d <=? e * p * gap) && within_prices e gap ds ps end end.
Lemma within_nth e gap ds : forall ps, within_prices e gap ds ps = true -> 0 <= e -> 0 <= gap -> forallb (Z.leb 0) ps = true -> forall k, nth k ds 0 <= e * nth k ps 0 * gap.
Proof.
  induction ds as [|d ds IH]; intros ps H E G P k.
  - assert (0 <= nth k ps 0) by (destruct (nth_in_or_default k ps 0) as [K| ->]; [rewrite forallb_forall in P; now apply Z.leb_le, P|lia]).
    assert (0 <= e * nth k ps 0 * gap) by nia. destruct k; cbn [nth]; lia.
  - destruct ps as [|p ps]; cbn [within_prices] in H; apply andb_true_iff in H; destruct H as [H1 H2]; apply Z.leb_le in H1.
    + specialize (IH [] H2 E G P). destruct k as [|k]; [cbn [nth]; lia|]. specialize (IH k). cbn [nth] in *. destruct k; exact IH.
    + cbn [forallb] in P. apply andb_true_iff in P. destruct P as [P1 P2]. destruct k as [|k]; cbn [nth]; [lia|]. now apply IH.
Qed.
Lemma dues_nth O L u pls : O <= u -> dues_in O L u pls = nth (slot_of O L u) (fold_right (fun pl => zip_add (dues pl)) [] pls) 0.
Proof.
  intros H. unfold dues_in, sum. induction pls as [|pl pls IH]; cbn [fold_right]; [now destruct (slot_of O L u)|]. rewrite zip_add_nth, IH. unfold in_slots.
  destruct (Z.ltb_spec u O); [lia|reflexivity].
Qed.
Lemma dues_before O L u pls : u < O -> dues_in O L u pls = 0.
Proof. intros H. unfold dues_in, sum, in_slots. destruct (Z.ltb_spec u O); [|lia]. induction pls as [|pl pls IH]; cbn [fold_right]; lia. Qed.

Section Bound.
  Variables (I : instance) (o : objective) (f : function) (r : resource) (m e slot N U : Z) (root : Z -> Z -> Z -> Z -> Z) (prices : list Z) (pls : list plan).
  Let M := mach I.
  Let q := share M m f r.
  Let den := unit_ticks M f r.
  Let gap := gap_of M m f r.
  Definition lone s := clock_0 true s + long I true (own_spans I) s.
  Definition speed_bound := values (den * earliest I) (den * slot) e gap (den * step I (shortest_of I)) N root prices U o den
    (pieces I true q den (own_spans I)) lone (initial I) pls.
  Definition speed_ok bound := well I && resource_ok M r && priced q && forallb (fun p => priced (fst p)) (own_spans I) && is_flow o
    && (0 <=? m) && (m <=? 1024) && (0 <=? e) && (e <=? 1024) && (0 <? slot) && (0 <? N) && (0 <? U) && (0 <=? earliest I) && forallb (Z.leb 0) prices
    && within_prices e gap (fold_right (fun pl => zip_add (dues pl)) [] pls) prices
    && match speed_bound with None => false | Some v =>
      U * den * (bound + sum (fun s => weigh o s * arrived s) (initial I) - 1) <? v - 1024 * (den * slot * fold_right Z.add 0 prices) end.
  Hypothesis listed : In f (cost I).
  Lemma jobs_starts ss es : jobs_of den (pieces I true q den (own_spans I)) ss es = starts I true q den (own_spans I) ss es.
  Proof. reflexivity. Qed.
  Theorem speed_certified_by bound : speed_ok bound = true -> forall bs v, valid I bs (Whole o) v -> bound <= v.
  Proof.
    unfold speed_ok. destruct speed_bound as [V|] eqn:SB; [|rewrite andb_false_r; discriminate].
    rewrite !andb_true_iff, !Z.ltb_lt, !Z.leb_le. intros [[[[[[[[[[[[[[[W RO] PQ] PS] IF] M0] M1] E0] E1] SL] NP] U0] EA] P0] WP] C] bs v (zz & d & R & F & ->). cbn [result].
    destruct (resource_k _ _ RO) as (RU & RK & PR). destruct (well_simple I W) as (B & G & FI & OV). pose proof G as GA. rewrite forallb_forall in GA.
    assert (forall g, In g (cost I) -> 1 <= divisor g) as DV by (intros g K; specialize (GA g K); unfold grows in GA; apply andb_true_iff in GA; now apply Z.leb_le).
    assert (0 < den) as D0. { unfold den, unit_ticks. specialize (DV f listed). assert (1 <= room_pre M) by (unfold room_pre; lia). nia. }
    assert (0 <= gap) as G0. { pose proof (GA f listed) as GF. unfold grows in GF. cbn [forallb] in GF. rewrite !andb_true_iff, !Z.leb_le in GF. unfold gap, gap_of, base.
      assert (1 <= room_pre M) by (unfold room_pre; lia). apply Z.mul_nonneg_nonneg; [lia|]. apply Z.mul_nonneg_nonneg; nia. }
    set (es := map (fun z => at_ (over z)) zz). set (least := den * step I (shortest_of I)).
    assert (Forall2 (fun s e => lone s <= e) (initial I) es /\ served least gap 0 (starts I true q den (own_spans I) (initial I) es)) as [A S].
    { pose proof (start I true q den (own_spans I) least gap W) as S. edestruct S as (X & Y & _); [|exact G0| | | |exact R|exact F|split; [exact X|exact Y]].
      - split; [exact B|]. split; [exact PQ|]. split; [exact D0|]. rewrite forallb_forall in PS. apply Forall_forall. intros p P. split; [now apply PS|].
        destruct P as [<-|P]; [cbn; lia|]. apply in_map_iff in P. destruct P as (g & <- & P). specialize (DV g P). cbn. lia.
      - intros t ss aa LL J. apply (divided_part M t ss aa m f r _ B LL (joint_fits I _ J) (GA f listed) RU RK (conj M0 M1)). now apply lasts_ge.
      - intros t s a l LL UN K0 K. constructor.
        + cbn [fst snd]. pose proof (once_le (mach I) s a l UN K). pose proof (lasts_1 (cost I) l). unfold dur. destruct (0 <? _); cbn [b2z] in *; lia.
        + apply Forall_forall. intros p P. apply in_map_iff in P. destruct P as (g & <- & P). cbn [fst snd].
          pose proof (own_le (mach I) g t s a B (GA g P) LL). pose proof (value_mono g _ _ (GA g P) UN). pose proof (lasts_ge (cost I) g l P G). unfold dur. lia.
      - intros t s a l LL UN PP K. unfold least. apply Z.mul_le_mono_nonneg_l; [lia|]. exact (step_D I (shortest_of I) B G t s a l LL UN PP K). }
    set (js := starts I true q den (own_spans I) (initial I) es) in *.
    assert (length pls = length (initial I)) as LP.
    { unfold speed_bound in SB. now apply values_length in SB. }
    assert (length js = length (initial I)) as LJ by (unfold js; clear - A; induction A; cbn [starts length]; congruence).
    destruct (served_apart least gap 0 js S (map (fun pl => (negb (split pl), 0)) pls)) as (gs & AG & AD & SV).
    { rewrite map_length. congruence. }
    { clear. unfold known. apply Forall_forall. intros x K. apply in_map_iff in K. destruct K as (pl & <- & _). cbn. lia. }
    set (O := den * earliest I). set (L := den * slot). assert (0 <= O) as O0 by (unfold O; nia). assert (0 < L) as L0 by (unfold L; nia).
    assert (Forall (fun s => 0 <= weigh o s) (initial I)) as WF.
    { eapply Forall_impl; [|exact OV]. cbn beta. intros s [_ W0]. destruct o; cbn [weigh]; lia. }
    unfold speed_bound in SB. fold O L least in SB. unfold js in AD, SV. rewrite <- jobs_starts in AD, SV.
    destruct (values_le O L e gap least N root prices O0 L0 G0 (conj E0 E1) NP P0 U o den (pieces I true q den (own_spans I)) lone U0 D0 (initial I) es A WF pls gs V SB AG AD) as (ks & K1 & K2 & K3).
    assert (exists last, Forall (fun k => till k <= last) ks /\ opens O L (length prices) <= last) as (last & T1 & T2).
    { clear. induction ks as [|k ks (x & A & B)]; [exists (opens O L (length prices)); split; [constructor|lia]|].
      exists (Z.max x (till k)). split; [constructor; [lia|]|lia]. eapply Forall_impl; [|exact A]. cbn beta. lia. }
    pose proof (in_slots_0 O L prices P0) as PP.
    pose proof (tolls_le (in_slots O L prices) e gap least PP G0 (conj E0 E1) 0 _ SV ks last K1 T1) as TL.
    rewrite (all_prices O L L0 prices last O0 T2) in TL. specialize (TL ltac:(intros u; etransitivity; [apply K2|]; destruct (Z.le_gt_cases O u) as [H|H];
      [rewrite dues_nth by exact H; unfold in_slots; destruct (Z.ltb_spec u O); [lia|]; now apply within_nth
      |rewrite dues_before by exact H; specialize (PP u); apply Z.mul_nonneg_nonneg; nia])).
    rewrite (flow_value o zz d IF), <- (owed_is o (initial I) zz) by (eapply run_weigh; exact R). fold es.
    rewrite (run_arrived _ _ _ _ _ _ o R). set (x := sum _ (initial I)) in *. set (w := owed o _ es) in *. fold L in C.
    assert (U * den * (bound + x - 1) < U * den * w) as Z0 by lia. assert (0 < U * den) by nia. nia.
  Qed.
End Bound.
Definition speed_proves I o place r m e slot N U root prices pls bound := match nth_error (cost I) place with
  | None => false | Some f => speed_ok I o f r m e slot N U root prices pls bound end.
Theorem speed_certified I o place r m e slot N U root prices pls bound : speed_proves I o place r m e slot N U root prices pls bound = true ->
  forall schedule v, valid I schedule (Whole o) v -> bound <= v.
Proof. unfold speed_proves. destruct (nth_error (cost I) place) as [f|] eqn:E; [|discriminate]. apply nth_error_In in E. now apply speed_certified_by. Qed.
Print Assumptions speed_certified.

(* A run of the machine is served by one that may interrupt.

   The tokens that a request has still to generate follow from its state (`to_come`). Each takes its batches a time
   (`span`) and has a share of the machine (`worth`). Along a run, what is left of these shares is served in the batches,
   no sooner than all before it takes, and early enough for all after it (`run_served`). The clock counts ticks, or, if
   not `real`, batches with work. *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices Alone Worth OneMachine Divide.
Import ListNotations.
Open Scope Z_scope.

Record token := Token { wait : Z; at_known : Z; from_kv : Z }.  (* after a call of `wait` ticks *)
Fixpoint grow n S (l : list token) {struct n} := match n with O => l | S n' => Token 0 (S + 1) S :: grow n' (S + 1) l end.
Fixpoint following S n (r : list (call * Z)) {struct r} := grow (Z.to_nat n) S match r with
  | [] => []
  | (c, d) :: r => let E := S + n in let K := E + 1 + returns c in
      Token (duration c) K (if is_h Discard (Some (handled c)) then 0 else E) :: following K (d - 1) r
  end.
Definition to_come s := following (known s) (todo s - 1) (rest s).

Inductive all3 {A B C} (P : A -> B -> C -> Prop) : list A -> list B -> list C -> Prop :=
| nil3 : all3 P [] [] []
| cons3 a b c l m n : P a b c -> all3 P l m n -> all3 P (a :: l) (b :: m) (c :: n).

Section Run.
  Variable I : instance.
  Let M := mach I.
  Variable real : bool.
  Variable q : prices.  (* of the shares *)
  Variable den : Z.  (* how many make up a tick *)
  Variable spans : list (prices * Z).
  Variables shortest least gap : Z.
  Definition span S k := fold_right (fun f x => Z.max (ceil_div (worth M (fst f) S k) (snd f)) x) 0 spans.
  Definition pause_of w := if real then w else 0.
  Definition length_of (l : list token) := sum (fun x => pause_of (wait x) + span (at_known x) (from_kv x)) l.
  Fixpoint place t l := match l with [] => [] | Token w n k :: l =>
    Piece (den * (t + pause_of w)) (worth M q n k) (den * length_of l) :: place (t + pause_of w + span n k) l end.

  Definition dur l := if real then lasts (cost I) l else b2z (0 <? ndec l + npre l).
  Definition sensible := 0 < block M /\ priced q = true /\ 0 < den /\
    Forall (fun f => priced (fst f) = true /\ 0 < snd f) spans.
  Lemma span_0 S k : 0 <= span S k.
  Proof. unfold span. induction spans; cbn [fold_right]; lia. Qed.
  Lemma span_le S k x : 0 <= x -> Forall (fun f => ceil_div (worth M (fst f) S k) (snd f) <= x) spans -> span S k <= x.
  Proof. unfold span. intros X. induction 1; cbn [fold_right]; lia. Qed.
  Lemma span_in S k f : In f spans -> ceil_div (worth M (fst f) S k) (snd f) <= span S k.
  Proof. unfold span. induction spans as [|g gs IH]; [easy|]. cbn [fold_right]. intros [->|H]; [lia|]. specialize (IH H). lia. Qed.
  Lemma length_0 l : Forall (fun x => 0 <= wait x) l -> 0 <= length_of l.
  Proof. unfold length_of, sum. induction 1 as [|x l W _ IH]; cbn [fold_right]; [lia|]. pose proof (span_0 (at_known x) (from_kv x)).
    unfold pause_of in *. destruct real; lia. Qed.

  Hypothesis ok : sensible.
  Hypothesis gap_0 : 0 <= gap.
  Hypothesis share_ok : forall t ss aa, Forall2 (local M t) ss aa -> joint M (total M ss aa) ->
    charges M q ss aa + gap * b2z (0 <? ndec (total M ss aa) + npre (total M ss aa)) <= den * dur (total M ss aa).
  Hypothesis span_ok : forall t s a l, local M t s a -> under (load_of M s a) l -> under none l -> work a <> 0 ->
    Forall (fun f => charge M (fst f) s a <= snd f * dur l) spans.
  Hypothesis least_ok : forall t s a l, local M t s a -> under (load_of M s a) l -> proper shortest s -> work a <> 0 ->
    least <= den * dur l.

  Record ghost := Ghost { begins : Z; closes : Z; open : Z }.  (* of the next token: from, to at the earliest; its work *)
  Definition clock now c s := if real then Z.max now (ready s) else c.
  Definition work_of s g := match over s with Some _ => [] | None =>
    Piece (den * begins g) (open g) (den * length_of (to_come s)) :: place (closes g) (to_come s) end.
  Definition job_of s g e := Job (den * e) (work_of s g).
  Definition fine s := proper shortest s /\ 0 <= device s /\ 0 <= host s /\
    Forall (fun c => 0 <= duration (fst c) /\ 1 <= snd c) (rest s) /\ (over s = None -> 1 <= todo s /\ kv s <= known s - 1).
  Definition keeps now c s g := over s = None -> begins g <= clock now c s /\
    closes g <= clock now c s + span (known s) (kv s) /\ 0 <= open g <= worth M q (known s) (kv s).
  Definition before now c s e := match over s with Some x => if real then x <= e else c <= e
    | None => clock now c s + span (known s) (kv s) + length_of (to_come s) <= e end.

  Lemma dur_0 l : 0 <= dur l.
  Proof. unfold dur. pose proof (lasts_1 (cost I) l). destruct real; [lia|]. destruct (0 <? _); cbn; lia. Qed.
  Section One.
    Variables (t now c : Z) (s : state) (a : act) (l : load).
    Hypothesis legal : local M t s a.
    Hypothesis inside : under (load_of M s a) l.
    Hypothesis pos : under none l.
    Hypothesis fits : fitsb M l = true.
    Hypothesis fine_s : fine s.
    Hypothesis later_t : now <= t.
    Let D := lasts (cost I) l.
    Let st := if real then t else c.
    Let s' := next M (t + D) s a.
    Lemma small q' : limit M = Some q' -> work a <= q'.
    Proof.
      intros H. destruct (Z.eq_dec (work a) 0) as [W|W].
      - unfold limit in H. destruct (chunked M); [|easy]. destruct (match prefill_tokens M with None => _ | _ => _ end) as [x|]; [|easy].
        destruct (Z.leb_spec 1 x); [|easy]. injection H as <-. lia.
      - unfold limit in H. destruct (chunked M); [|easy]. destruct (match prefill_tokens M with None => _ | _ => _ end) as [x|] eqn:E; [|easy].
        destruct (Z.leb_spec 1 x); [|easy]. injection H as <-. exact (chunk I t s a l legal inside fits x W E ltac:(assumption)).
    Qed.
    (* of all prices at once *)
    Definition everywhere (P : prices -> Prop) := P q /\ Forall (fun f => P (fst f)) spans.
    Lemma all_prices (P : prices -> Prop) : (forall p, priced p = true -> P p) -> everywhere P.
    Proof. intros H. destruct ok as (_ & A & _ & B). split; [now apply H|]. eapply Forall_impl; [|exact B]. intros f [X _]. now apply H. Qed.
    Lemma m2_kv : 0 <= m2 s a /\ 0 <= h2 s a /\ m2 s a + h2 s a <= kv s /\ (partial M = false -> m2 s a + h2 s a = kv s \/ m2 s a + h2 s a = 0).
    Proof.
      destruct (kv_drop I t s a l legal) as [K1 K2]. pose proof legal as (_ & _ & _ & _ & (_ & _ & R8) & R9 & G). destruct fine_s as (_ & F1 & F2 & _).
      unfold R10 in G. split; [exact K1|]. split; [unfold h2; lia|]. split; [exact K2|]. intros P. destruct (R8 P) as (X & _).
      unfold m2, h2, h1, m1 in *. destruct (Z.eq_dec (drop a) 0) as [Z|Z]; [|specialize (X Z); right; lia]. left.
      unfold kv, gone in *. destruct (due s && is_h Discard (window s)) eqn:E; [|lia]. apply andb_true_iff in E. destruct E as [E1 E2].
      apply is_h_iff in E2. destruct R9 as [R9 _]. destruct (R9 E1) as [Y _]. specialize (Y E2). lia.
    Qed.
    Lemma worth_moves : kv s <= known s - 1 -> everywhere (fun p => worth M p (known s) (kv s) <= worth M p (known s) (m2 s a + h2 s a)).
    Proof. intros K. destruct ok as (B & _). pose proof m2_kv. apply all_prices. intros p P. apply (worth_drop M p P); intuition lia. Qed.
    Lemma span_moves : kv s <= known s - 1 -> span (known s) (kv s) <= span (known s) (m2 s a + h2 s a).
    Proof.
      intros K. apply span_le; [apply span_0|]. destruct (worth_moves K) as [_ W]. rewrite Forall_forall in *. intros f F.
      etransitivity; [|apply (span_in _ _ f F)]. apply ceil_mono; [|now apply W]. destruct ok as (_ & _ & _ & S). rewrite Forall_forall in S. now apply S.
    Qed.
    Lemma span_works y : work a <> 0 -> 0 <= y -> Forall (fun f => worth M (fst f) (known s) (m2 s a) <= charge M (fst f) s a
      + snd f * y) spans -> span (known s) (m2 s a) <= dur l + y.
    Proof.
      intros W Y F. apply span_le; [pose proof (dur_0 l); lia|]. pose proof (span_ok t s a l legal inside pos W) as X. destruct ok as (_ & _ & _ & S).
      rewrite Forall_forall in *. intros f K. specialize (F f K). specialize (X f K). destruct (S f K) as [_ Q].
      pose proof (ceil_step I l (worth M (fst f) (known s) (m2 s a)) 0 (snd f) (dur l + y) Q ltac:(nia)) as R. rewrite ceil_0 in R. lia.
    Qed.
    Lemma span_up S k f : In f spans -> worth M (fst f) S k <= snd f * span S k.
    Proof. intros K. apply ceil_le; [|now apply span_in]. destruct ok as (_ & _ & _ & X). rewrite Forall_forall in X. now apply X. Qed.
    Lemma charge_0 p : priced p = true -> 0 <= charge M p s a.
    Proof.
      intros P. destruct ok as (B & _). pose proof (load_under M t s a B legal) as (U1 & U2 & U3). cbn [none tok ptok gen ndec npre dkv pkv pairs blk] in *.
      pose proof (prices_pos p P) as (P1 & P2 & P3 & P4 & P5 & P6 & P7 & P8 & P9 & P10 & P11). unfold charge, linear.
      pose proof (pack_0 M p P (blk (load_of M s a)) ltac:(lia)) as PK.
      repeat apply Z.add_nonneg_nonneg; try (apply Z.mul_nonneg_nonneg; lia).
      - apply Z.mul_nonneg_nonneg; [lia|]. destruct (work a =? 0); lia.
      - destruct (generates s a); cbn [if0]; nia.
    Qed.
    Lemma clock_start : work a <> 0 -> over s = None /\ ready s <= t /\ h2 s a = 0 /\ clock now c s <= st.
    Proof. intros W. destruct legal as (A & _ & B & _). destruct (A W) as [A1 A2]. destruct (B W) as [B1 _]. unfold clock, st. destruct real; repeat split; assumption || lia. Qed.
    Lemma clock_after r : clock (t + D) (c + dur l) r >= st + dur l.
    Proof. unfold clock, st, dur, D. destruct real; lia. Qed.
    Lemma clock_idle r : ready r = ready s -> clock now c s <= clock (t + D) (c + dur l) r.
    Proof. intros E. pose proof (dur_0 l). pose proof (lasts_1 (cost I) l). unfold clock, D in *. rewrite E. destruct real; lia. Qed.
    Definition serves_act g g' e := exists x, 0 <= x <= charge M q s a /\ (0 < x -> work a <> 0) /\
      serve (den * st) (den * dur l) x (job_of s g e) (job_of s' g' e).
    Lemma act_idle g : work a = 0 -> keeps now c s g -> fine s' /\ keeps (t + D) (c + dur l) s' g /\
      forall e, before (t + D) (c + dur l) s' e -> before now c s e /\ serves_act g g e.
    Proof.
      intros W K. destruct fine_s as (P & F1 & F2 & F3 & F4). destruct m2_kv as (K1 & K2 & K3 & K4). pose proof (dur_0 l) as D0.
      assert (s' = State (known s) (m2 s a) (h2 s a) (todo s) (rest s) (ready s) (window s) false false (first s) (over s)
        (arrived s) (wt s)) as E by (unfold s', next; now rewrite W).
      pose proof (clock_idle s' ltac:(now rewrite E)) as C.
      assert (kv s' = m2 s a + h2 s a /\ known s' = known s /\ over s' = over s /\ to_come s' = to_come s) as (E1 & E2 & E3 & E4)
        by (rewrite E; repeat split; reflexivity).
      assert (over s = None -> span (known s) (kv s) <= span (known s) (m2 s a + h2 s a) /\
        worth M q (known s) (kv s) <= worth M q (known s) (m2 s a + h2 s a)) as SW.
      { intros O. destruct (F4 O) as [_ X]. split; [now apply span_moves|]. now apply worth_moves. }
      unfold fine, keeps, before, serves_act, job_of, work_of. rewrite E1, E2, E3, E4.
      split. { rewrite E. cbn [known device host todo rest over]. refine (conj P (conj K1 (conj K2 (conj F3 _)))).
        intros O. destruct (F4 O). lia. }
      split. { intros O. destruct (K O). destruct (SW O). lia. }
      intros e H. split.
      - destruct (over s); [destruct real; lia|]. destruct (SW eq_refl). lia.
      - exists 0. pose proof (charge_0 q ltac:(apply ok)). split; [lia|]. split; [lia|]. constructor.
    Qed.
    Lemma act_part g : work a <> 0 -> m2 s a + work a <> known s -> keeps now c s g -> fine s' /\ exists g', keeps (t + D) (c + dur l) s' g' /\
      forall e, before (t + D) (c + dur l) s' e -> before now c s e /\ serves_act g g' e.
    Proof.
      intros W N K. destruct fine_s as (P & F1 & F2 & F3 & F4). destruct m2_kv as (K1 & K2 & K3 & K4). pose proof (dur_0 l) as D0.
      destruct (clock_start W) as (O & RD & H0 & CS). destruct (F4 O) as [T1 T2]. destruct (K O) as (G1 & G2 & G3).
      destruct (work_few I t s a legal W) as [WF _]. pose proof (charge_0 q ltac:(apply ok)) as C0. destruct ok as (B & PQ & DP & PS).
      assert (s' = State (known s) (m2 s a + work a) (h2 s a) (todo s) (rest s) (ready s) None false (negb (pause M)) (first s)
        (over s) (arrived s) (wt s)) as E.
      { unfold s', next. destruct (Z.eqb_spec (work a) 0); [contradiction|]. now destruct (Z.eqb_spec (m2 s a + work a) (known s)). }
      pose proof (clock_after s') as CA.
      assert (kv s' = m2 s a + work a /\ known s' = known s /\ over s' = None /\ to_come s' = to_come s) as (E1 & E2 & E3 & E4)
        by (rewrite E; unfold kv, gone; cbn [device host due window andb known over]; rewrite H0, O; repeat split; lia || reflexivity).
      pose proof (worth_moves T2) as [MQ _]. pose proof (span_moves T2) as MS. rewrite H0, Z.add_0_r in MQ, MS.
      pose proof (worth_on M q B PQ t s a legal small W N) as OQ.
      pose proof (span_works (span (known s) (m2 s a + work a)) W (span_0 _ _)) as OS.
      assert (span (known s) (m2 s a) <= dur l + span (known s) (m2 s a + work a)) as OS2.
      { apply OS. rewrite Forall_forall in *. intros f F. destruct (PS f F) as [PF _]. pose proof (worth_on M (fst f) B PF t s a legal small W N).
        pose proof (span_up (known s) (m2 s a + work a) f F). lia. }
      set (x := Z.min (open g) (charge M q s a)). split.
      { unfold fine. rewrite E1, E2. rewrite E. cbn [device host rest over todo].
        refine (conj _ (conj _ (conj _ (conj F3 _)))); try lia. split; cbn [known rest]; apply P. }
      exists (Ghost (begins g) (closes g) (open g - x)).
      unfold keeps, before, serves_act, job_of, work_of. rewrite E1, E2, E3, E4, O. cbn [begins closes open].
      pose proof (worth_0 M q B PQ (known s) (m2 s a + work a) ltac:(lia)).
      split. { intros _. lia. }
      intros e BE. pose proof (span_0 (known s) (m2 s a + work a)). split; [lia|]. exists x. split; [lia|]. split; [easy|].
      constructor; [nia|lia|nia].
    Qed.
    Lemma act_token g : work a <> 0 -> m2 s a + work a = known s -> keeps now c s g -> fine s' /\ exists g', keeps (t + D) (c + dur l) s' g' /\
      forall e, before (t + D) (c + dur l) s' e -> before now c s e /\ serves_act g g' e.
    Proof.
      intros W N K. destruct fine_s as (P & F1 & F2 & F3 & F4). destruct m2_kv as (K1 & K2 & K3 & K4). pose proof (dur_0 l) as D0.
      destruct (clock_start W) as (O & RD & H0 & CS). destruct (F4 O) as [T1 T2]. destruct (K O) as (G1 & G2 & G3).
      destruct (work_few I t s a legal W) as [WF _]. pose proof (charge_0 q ltac:(apply ok)) as C0. destruct ok as (B & PQ & DP & PS).
      pose proof (worth_moves T2) as [MQ _]. pose proof (span_moves T2) as MS. rewrite H0, Z.add_0_r in MQ, MS.
      pose proof (worth_end M q B PQ t s a legal small W N) as OQ.
      assert (span (known s) (m2 s a) <= dur l + 0) as OS.
      { apply span_works; [exact W|lia|]. rewrite Forall_forall in *. intros f F. destruct (PS f F) as [PF _].
        pose proof (worth_end M (fst f) B PF t s a legal small W N). lia. }
      pose proof (lasts_1 (cost I) l) as L1. destruct P as [PP PR].
      (* what is next: nothing, or a token *)
      assert ((to_come s = [] /\ over s' = Some (t + D) /\ rest s' = []
          \/ exists w, to_come s = Token w (known s') (kv s') :: to_come s' /\ 0 <= w /\ over s' = None /\ 1 <= todo s' /\ kv s' <= known s' - 1
            /\ clock (t + D) (c + dur l) s' = st + dur l + pause_of w /\ Forall (fun c : call * Z => 0 <= duration (fst c) /\ 1 <= snd c) (rest s')
            /\ Forall (fun c : call * Z => 0 <= returns (fst c)) (rest s'))
        /\ 0 <= device s' /\ 0 <= host s' /\ shortest <= known s') as (NX & D' & H' & S').
      { unfold s', next. destruct (Z.eqb_spec (work a) 0) as [|_]; [contradiction|]. rewrite N, Z.eqb_refl. cbn [negb].
        destruct (Z.eqb_spec (todo s) 1) as [X|X]; cbn [negb].
        - destruct (rest s) as [|[cl n] r] eqn:RE; cbn [device host known over todo].
          + split; [left|lia]. unfold to_come. rewrite RE, X. cbn. repeat split.
          + inversion F3 as [|x y [Y1 Y2] Y3]. subst. inversion PR as [|x y Y4 Y5]. subst. cbn [fst snd] in *.
            split; [right|lia]. exists (duration cl). unfold kv, gone, clock, pause_of, dur, st, D, to_come.
            rewrite RE, X. cbn [following known device host todo rest ready window due over andb]. replace (1 - 1) with 0 by lia.
            cbn [Z.to_nat grow]. rewrite !Z.add_0_r, H0.
            destruct (handled cl); cbn [orders is_h andb]; (split; [repeat f_equal; lia|]);
              (split; [lia|]); (split; [exact O|]); (split; [lia|]); (split; [lia|]); (split; [destruct real; lia|]); now split.
        - cbn [device host known over todo]. split; [right|lia]. exists 0. unfold kv, gone, clock, pause_of, dur, st, D, to_come.
          cbn [known device host todo rest ready window due over andb]. rewrite H0, Z.add_0_r.
          split; [|split; [lia|split; [exact O|split; [lia|split; [lia|split; [destruct real; lia|now split]]]]]].
          assert (Z.to_nat (todo s - 1) = Datatypes.S (Z.to_nat (todo s - 1 - 1))) as TN by lia.
          destruct (rest s) as [|[cl n] r]; cbn [following]; rewrite TN; cbn [grow]; [reflexivity|].
          replace (known s + 1 + (todo s - 1 - 1)) with (known s + (todo s - 1)) by lia. reflexivity. }
      unfold serves_act, job_of, work_of, before, keeps, fine. rewrite O. destruct NX as [(LN & L2 & L3)|(w & LN & L2 & L3 & L4 & L5 & L6 & L7 & L8)].
      - split. { rewrite L3. refine (conj _ (conj D' (conj H' (conj (Forall_nil _) _)))); [split; [exact S'|rewrite L3; constructor]|congruence]. }
        exists g. rewrite L2. split; [congruence|]. intros e BE. rewrite LN. cbn [length_of sum fold_right place].
        assert (st + dur l <= e) by (unfold st, dur, D in *; destruct real; lia). split; [lia|]. exists (open g). split; [lia|]. split; [easy|].
        constructor; [nia|lia|nia].
      - split. { refine (conj _ (conj D' (conj H' (conj L7 _)))); [split; [exact S'|exact L8]|]. intros _. split; assumption. }
        assert (0 <= kv s') as KV. { unfold kv. destruct (gone s'); lia. }
        exists (Ghost (closes g + pause_of w) (closes g + pause_of w + span (known s') (kv s')) (worth M q (known s') (kv s'))).
        rewrite LN, L3. cbn [begins closes open place]. pose proof (worth_0 M q B PQ (known s') (kv s') ltac:(lia)).
        split. { intros _. rewrite L6. lia. }
        intros e BE. pose proof (span_0 (known s') (kv s')). rewrite L6 in BE. change (length_of (Token w (known s') (kv s') :: to_come s'))
          with (pause_of w + span (known s') (kv s') + length_of (to_come s')). split; [lia|]. exists (open g). split; [lia|]. split; [easy|].
        constructor; [nia|lia|nia].
    Qed.
    Lemma act g : keeps now c s g -> fine s' /\ exists g', keeps (t + D) (c + dur l) s' g' /\
      forall e, before (t + D) (c + dur l) s' e -> before now c s e /\ serves_act g g' e.
    Proof.
      intros K. destruct (Z.eq_dec (work a) 0) as [W|W].
      - destruct (act_idle g W K) as (A & B & C). split; [exact A|]. now exists g.
      - destruct (Z.eq_dec (m2 s a + work a) (known s)) as [N|N]; [now apply act_token|now apply act_part].
    Qed.
  End One.

  (* All requests, in a batch. *)
  Fixpoint jobs ss gs es := match ss, gs, es with s :: ss, g :: gs, e :: es => job_of s g e :: jobs ss gs es | _, _, _ => [] end.
  Lemma batch_served t now c ss aa gs l : Forall2 (fun s a => local M t s a /\ under (load_of M s a) l) ss aa -> under none l ->
    fitsb M l = true -> Forall fine ss -> now <= t -> Forall2 (keeps now c) ss gs -> let D := lasts (cost I) l in
    let ss' := nexts M (t + D) ss aa in Forall fine ss' /\ exists gs', Forall2 (keeps (t + D) (c + dur l)) ss' gs' /\
    forall es, Forall2 (before (t + D) (c + dur l)) ss' es -> Forall2 (before now c) ss es /\ exists X,
      serves (den * if real then t else c) (den * dur l) X (jobs ss gs es) (jobs ss' gs' es) /\ X <= charges M q ss aa
      /\ (0 < X -> least <= den * dur l /\ 0 < ndec l + npre l).
  Proof.
    intros L U F FI T K D. revert gs FI K. induction L as [|s a ss aa [A B] _ IH]; intros gs FI K; inversion K as [|x g y gs2 K1 K2]; subst; cbn [nexts].
    - split; [constructor|]. exists []. split; [constructor|]. intros es E. inversion E. subst. split; [constructor|]. exists 0.
      split; [constructor|]. cbn [charges]. lia.
    - inversion FI as [|x y F1 F2]. subst. destruct (IH gs2 F2 K2) as (FS & gs' & KS & ES).
      destruct (act t now c s a l A B U F F1 T g K1) as (FA & g' & KA & EA). split; [now constructor|]. exists (g' :: gs'). split; [now constructor|].
      intros es E. inversion E as [|x e y es2 E1 E2]. subst. destruct (ES es2 E2) as (BS & X & S1 & S2 & S3).
      destruct (EA e E1) as (BA & x & X1 & X2 & X3). split; [now constructor|]. exists (x + X). split; [now constructor|].
      cbn [charges]. split; [lia|]. intros P. destruct (Z.le_gt_cases x 0) as [N|N]; [apply S3; lia|].
      specialize (X2 ltac:(lia)). split; [exact (least_ok t s a l A B ltac:(apply F1) X2)|]. pose proof (count_work M s a) as CW.
      destruct (Z.eqb_spec (work a) 0); [contradiction|]. cbn [negb b2z] in CW. destruct B as ((_ & _ & _ & B) & _). lia.
  Qed.
  Fixpoint batches ss bs {struct bs} := match bs with [] => 0 | Batch t aa :: bs => let l := total M ss aa in
    b2z (0 <? ndec l + npre l) + batches (nexts M (t + lasts (cost I) l) ss aa) bs end.
  Fixpoint spent p ss bs {struct bs} := match bs with [] => 0 | Batch t aa :: bs => charges M p ss aa
    + spent p (nexts M (t + lasts (cost I) (total M ss aa)) ss aa) bs end.
  Definition amounts js := sum (fun j => sum amount (left j)) js.
  Lemma amounts_serves t D X js js' : serves t D X js js' -> amounts js = X + amounts js'.
  Proof. unfold amounts. induction 1 as [|x X j j' js js' S SS IH]; [reflexivity|]. cbn [sum fold_right] in *. unfold sum in *.
    inversion S; subst; cbn [left fold_right amount] in *; lia. Qed.
  Theorem run_served now ss bs zz d : run I now ss bs zz d -> Forall R11 zz -> Forall fine ss -> forall c gs, Forall2 (keeps now c) ss gs ->
    let es := map (fun z => if real then at_ (over z) else c + batches ss bs) zz in
    Forall2 (before now c) ss es /\ served least gap (den * if real then now else c) (jobs ss gs es) /\ amounts (jobs ss gs es) <= spent q ss bs.
  Proof.
    induction 1 as [now ss|now ss t aa bs zz d T L J D R IH]; intros Z FI c gs K; cbn [batches spent].
    - rewrite Z.add_0_r. enough (Forall2 (before now c) ss (map (fun z => if real then at_ (over z) else c) ss) /\
        Forall (fun j => left j = []) (jobs ss gs (map (fun z => if real then at_ (over z) else c) ss))) as [B N].
      { split; [exact B|]. split; [now constructor|]. unfold amounts, sum. clear B. induction N as [|j js N _ A]; cbn [fold_right]; [lia|]. now rewrite N. }
      clear FI. revert gs K. induction Z as [|z zz O _ IH]; intros gs K; inversion K as [|x g y gs2 K1 K2]; subst; cbn [map jobs]; [now split|].
      destruct (IH gs2 K2) as (B & N). unfold R11 in O. split; constructor; try assumption; unfold before, job_of, work_of;
        cbn [left]; destruct (over z); try congruence. destruct real; cbn; lia.
    - destruct ok as (B0 & _ & DP & _). destruct (loads_under M t ss aa B0 L) as [U LU]. unfold R1 in T.
      set (l := total M ss aa) in *. destruct (batch_served t now c ss aa gs l LU U (joint_fits I l J) FI T K) as (F' & gs' & K' & E').
      fold D in F', K', E'. destruct (IH Z F' (c + dur l) gs' K') as (B & S & A). set (es := map _ zz) in B, S, A.
      replace (map _ zz) with es.
      2: { apply map_ext. intros z. unfold dur. destruct real; [reflexivity|]. exact (eq_sym (Z.add_assoc _ _ _)). }
      destruct (E' es B) as (B' & X & S1 & S2 & S3). split; [exact B'|]. pose proof (share_ok t ss aa L J) as SO. fold l in SO. split.
      + apply (later_on _ _ _ (den * if real then t else c) (den * dur l) X _ (jobs (nexts M (t + D) ss aa) gs' es)); try assumption; try lia.
        * destruct real; nia.
        * pose proof (dur_0 l). nia.
        * destruct (0 <? _); cbn [b2z] in SO; lia.
        * intros XP. destruct (S3 XP) as [P1 P2]. apply Z.ltb_lt in P2. rewrite P2 in SO. cbn [b2z] in SO. lia.
        * replace (den * (if real then t else c) + den * dur l) with (den * if real then t + D else c + dur l); [exact S|].
          unfold dur. destruct real; [change D with (lasts (cost I) l)|]; ring.
      + rewrite (amounts_serves _ _ _ _ _ S1). apply Z.add_le_mono; [exact S2|exact A].
  Qed.
End Run.

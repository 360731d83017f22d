(* How the time of a batch is divided among what is in it.

   A function of the cost is at least its linear part, plus a fixed part in each batch with work, plus one in each with a
   prefill. The requests share the fixed part by what they take of one limit (`resource`), that of prefills by their
   tokens: the charges of a batch are at most its time (`divided`). *)
Require Import ZArith List Bool Lia Spec Referee Model Check Prices Alone Worth.
Import ListNotations.
Open Scope Z_scope.

Definition line f := Rates (tokens f) (generated f) (decode_requests f) (prefill_requests f) (decode_kv f) (prefill_kv f)
  (prefill_pairs f) 0 0 0 0.
Definition base f := busy f + Z.min (any_decode f) (any_prefill f).
Definition extra f := Z.max 0 (any_prefill f - any_decode f).
Definition own f := Rates (tokens f) (generated f) (decode_requests f + (busy f + any_decode f))
  (prefill_requests f + (busy f + any_prefill f)) (decode_kv f) (prefill_kv f) (prefill_pairs f) 0 0 0 0.  (* as if alone *)
Definition once := Rates 0 0 1 1 0 0 0 0 0 0 0.  (* its batches *)
Inductive resource := ByMemory | ByPacking (k : Z) | ByTokens | ByPrefill.
Definition unit_of r := match r with
  | ByMemory => Rates 0 0 0 0 0 0 0 0 1 0 0 | ByPacking k => Rates 0 0 0 0 0 0 0 0 0 1 k
  | ByTokens => Rates 1 0 0 0 0 0 0 0 0 0 0 | ByPrefill => Rates 0 0 0 0 0 0 0 1 0 0 0 end.
Definition most_prefill M := match (match prefill_tokens M with None => batch_tokens M | p => p end) with Some p => p | None => 0 end.
Definition supply_of M r := match r with
  | ByMemory => room_of M | ByPacking k => k * room_of M | ByPrefill => most_prefill M
  | ByTokens => match batch_tokens M with Some c => c | None => 0 end end.
Definition blend x p y r z := Rates (x * c_tok p + y * c_tok r) (x * c_gen p + y * c_gen r) (x * c_dec p + y * c_dec r)
  (x * c_pre p + y * c_pre r) (x * c_dkv p + y * c_dkv r) (x * c_pkv p + y * c_pkv r) (x * c_pairs p + y * c_pairs r)
  (x * c_ptok p + y * c_ptok r + z) (x * c_blk p + y * c_blk r) (y * c_pack r) (packs r).
Fixpoint charges M p ss aa {struct ss} := match ss, aa with s :: ss, a :: aa => charge M p s a + charges M p ss aa | _, _ => 0 end.

Lemma pack_is M p x : c_pack p * pack M p x = c_pack p * packing M (packs p) x.
Proof. unfold pack. destruct (Z.eqb_spec (c_pack p) 0) as [->|E]; [ring|reflexivity]. Qed.
Lemma charge_blend M x p y r z s a : c_pack p = 0 -> charge M (blend x p y r z) s a
  = x * charge M p s a + y * charge M r s a + z * ptok (load_of M s a).
Proof.
  intros P. unfold charge, linear. cbn [blend c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok c_blk].
  rewrite !pack_is, P. cbn [blend c_pack packs]. generalize (if work a =? 0 then 0 else blk (load_of M s a)). intros b.
  destruct (generates s a); cbn [if0]; ring.
Qed.
Lemma charges_blend M x p y r z ss aa : c_pack p = 0 -> charges M (blend x p y r z) ss aa
  = x * charges M p ss aa + y * charges M r ss aa + z * ptok (total M ss aa).
Proof. intros P. revert aa. induction ss as [|s ss IH]; intros [|a aa]; cbn [charges total]; try (cbn; ring).
  rewrite charge_blend, IH by exact P. cbn [plus ptok]. ring. Qed.
Lemma linear_plus p x y : linear p (plus x y) = linear p x + linear p y.
Proof. unfold linear. cbn [plus tok gen ndec npre dkv pkv pairs ptok]. ring. Qed.
Lemma charges_linear M p ss aa : c_blk p = 0 -> c_pack p = 0 -> charges M p ss aa = linear p (total M ss aa).
Proof. intros B P. revert aa. induction ss as [|s ss IH]; intros [|a aa]; cbn [charges total]; try (unfold linear; cbn; ring).
  rewrite IH, linear_plus. unfold charge. rewrite B, P. destruct (generates s a); cbn [if0]; ring. Qed.
Lemma count_work M s a : ndec (load_of M s a) + npre (load_of M s a) = b2z (negb (work a =? 0)).
Proof. unfold load_of. cbn [ndec npre]. unfold prefills. destruct (decodes s a) eqn:E; [|destruct (work a =? 0); reflexivity].
  unfold decodes in E. destruct (work a =? 0); [discriminate|reflexivity]. Qed.

Section Batch.
  Variable M : machine.
  Hypothesis block_ok : 0 < block M.
  Variables (t : Z) (ss : list state) (aa : list act).
  Hypothesis L : Forall2 (local M t) ss aa.
  Let l := total M ss aa.
  Hypothesis J : fitsb M l = true.
  Lemma total_pos : under none l. Proof. apply (loads_under M t); assumption. Qed.
  Lemma charge_idle p s a : work a = 0 -> charge M p s a = 0.
  Proof.
    intros W. unfold charge, linear, load_of, prefills, generates, decodes. rewrite W. cbn [Z.eqb negb andb b2z if0 tok gen ndec npre dkv pkv pairs ptok]. ring.
  Qed.
  Lemma charges_idle p : ndec l + npre l <= 0 -> charges M p ss aa = 0.
  Proof.
    unfold l. clear J. induction L as [|s a xs bs A B IH]; cbn [charges total plus ndec npre]; [reflexivity|]. intros H.
    pose proof (count_work M s a) as C. pose proof (loads_under M t xs bs block_ok B) as [[U _] _]. cbn [none ndec npre] in U.
    destruct (Z.eqb_spec (work a) 0) as [W|W]; cbn [negb b2z] in C; [|lia]. specialize (IH B). cbv zeta in IH. rewrite (charge_idle p s a W), IH; lia.
  Qed.
  Lemma prefilled_only : npre l <= 0 -> ptok l <= 0.
  Proof.
    unfold l. clear J. induction L as [|s a xs bs A B IH]; cbn [total plus npre ptok]; [reflexivity|]. intros H.
    pose proof (loads_under M t xs bs block_ok B) as [[U _] _]. cbn [none npre] in U. specialize (IH B).
    unfold load_of in *. cbn [npre ptok] in *. destruct (prefills s a); cbn [b2z if0] in *; lia.
  Qed.
  Lemma most_prefill_le : 1 <= most_prefill M -> ptok l <= most_prefill M * b2z (0 <? npre l).
  Proof.
    intros P. destruct (Z.ltb_spec 0 (npre l)) as [N|N]; cbn [b2z]; [|pose proof (prefilled_only N); lia].
    pose proof J as F. unfold fitsb in F. rewrite !andb_true_iff in F. destruct F as [[[[F1 F2] _] _] _]. unfold most_prefill in *.
    assert (ptok l <= tok l) as T.
    { unfold l. clear J N F1 F2. induction L as [|s a xs bs A B IH]; cbn [total plus ptok tok]; [cbn; lia|]. specialize (IH B).
      pose proof (load_under _ _ _ _ block_ok A) as [(U & _) _]. unfold load_of in *. cbn [none tok ptok] in *. destruct (prefills s a); cbn [if0]; lia. }
    destruct (prefill_tokens M) as [p|]; cbn [withinb] in *; [apply Z.leb_le in F2; lia|].
    destruct (batch_tokens M) as [c|]; cbn [withinb] in *; [apply Z.leb_le in F1; lia|lia].
  Qed.
  Lemma packed_le k : 1 <= k -> 1 <= room_of M -> charges M (unit_of (ByPacking k)) ss aa <= k * room_of M.
  Proof.
    intros K R. assert (blk l <= room_of M) as B.
    { pose proof J as F. unfold fitsb in F. rewrite !andb_true_iff in F. destruct F as [[_ F] _]. unfold room_of in *.
      destruct (memory M); cbn [option_map withinb] in *; [now apply Z.leb_le|lia]. }
    assert (exists a o n, 0 <= a /\ 0 <= o /\ a + o <= blk l /\ ((k + 1) * a) mod room_of M = 0 /\
      charges M (unit_of (ByPacking k)) ss aa = k * a + n * room_of M /\ (n = 0 \/ n * room_of M < (k + 1) * o)) as (a & o & n & A & O & S & D & -> & N).
    { unfold l. clear J B. induction L as [|s b xs bs X Y IH]; cbn [charges total plus blk].
      - exists 0, 0, 0. cbn [none blk]. rewrite Z.mul_0_r, Z.mod_0_l by lia. lia.
      - destruct (IH Y) as (a & o & n & A & O & S & D & -> & N). pose proof (load_under _ _ _ _ block_ok X) as [_ [_ (_ & _ & U & _)]].
        cbn [none blk] in U. set (x := blk (load_of M s b)) in *.
        assert (charge M (unit_of (ByPacking k)) s b = if0 (generates s b) (pack M (unit_of (ByPacking k)) x)) as ->.
        { unfold charge, linear, unit_of. cbn [c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok c_blk c_pack]. fold x. destruct (generates s b); cbn [if0]; ring. }
        unfold pack, packing, unit_of. cbn [c_pack packs Z.eqb]. destruct (generates s b); cbn [if0]; [|exists a, o, n; lia].
        cbv zeta. destruct (Z.eqb_spec (((k + 1) * x) mod room_of M) 0) as [E|E].
        + exists (a + x), o, n. rewrite Z.mul_add_distr_l, Z.add_mod, D, E by lia. cbn [Z.add]. rewrite Z.mod_0_l by lia. lia.
        + exists a, (o + x), (n + (k + 1) * x / room_of M). split; [exact A|]. split; [lia|]. split; [lia|]. split; [exact D|].
          split; [ring|]. right. pose proof (Z.div_mod ((k + 1) * x) (room_of M) ltac:(lia)) as DM.
          pose proof (Z.mod_pos_bound ((k + 1) * x) (room_of M) ltac:(lia)). assert (0 <= (k + 1) * o) by nia. nia. }
    destruct N as [->|N]; [nia|]. apply Z.mod_divide in D; [|lia]. destruct D as [z D].
    assert (n * room_of M < ((k + 1) - z) * room_of M) by nia. assert (n <= k - z) by nia. nia.
  Qed.
  Lemma shared_le r : 1 <= supply_of M r -> (match r with ByPacking k => 1 <= k | _ => True end) ->
    charges M (unit_of r) ss aa <= supply_of M r * b2z (0 <? ndec l + npre l).
  Proof.
    intros U K. destruct (Z.ltb_spec 0 (ndec l + npre l)) as [W|W]; cbn [b2z]; [|rewrite (charges_idle _ W); lia]. rewrite Z.mul_1_r.
    pose proof J as F. unfold fitsb in F. rewrite !andb_true_iff in F. destruct F as [[[[F1 F2] _] F3] _].
    destruct r as [|k| |]; cbn [supply_of] in *.
    - assert (charges M (unit_of ByMemory) ss aa <= blk l) as B.
      { unfold l. clear - L block_ok. induction L as [|s a xs bs A B IH]; cbn [charges total plus blk]; [cbn; lia|]. specialize (IH B).
        pose proof (load_under _ _ _ _ block_ok A) as [_ [_ (_ & _ & X & _)]]. cbn [none blk] in X.
        generalize dependent (charges M (unit_of ByMemory) xs bs). intros c C. unfold charge, linear.
        cbn [unit_of c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok c_blk c_pack]. destruct (work a =? 0), (generates s a); cbn [if0]; lia. }
      unfold room_of in *. destruct (memory M); cbn [option_map withinb] in *; [apply Z.leb_le in F3; lia|lia].
    - apply packed_le; [exact K|]. nia.
    - rewrite charges_linear by reflexivity. fold l. unfold linear. cbn [unit_of c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok].
      destruct (batch_tokens M); cbn [withinb] in *; [apply Z.leb_le in F1; lia|lia].
    - rewrite charges_linear by reflexivity. fold l. unfold linear. cbn [unit_of c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok].
      pose proof (most_prefill_le U). destruct (0 <? npre l); cbn [b2z] in *; lia.
  Qed.
  Lemma line_le f : grows f = true ->
    linear (line f) l + base f * b2z (0 <? ndec l + npre l) + extra f * b2z (0 <? npre l) <= value_of f l.
  Proof.
    pose proof total_pos as (U1 & U2 & U3). cbn [none tok ptok gen ndec npre dkv pkv pairs otok itok nout nin] in *.
    unfold grows. cbn [forallb]. rewrite !andb_true_iff, !Z.leb_le. intros G. decompose [and] G. clear G.
    unfold linear, line, base, extra, value_of. cbn [c_tok c_gen c_dec c_pre c_dkv c_pkv c_pairs c_ptok].
    assert (0 <= above f * Z.max 0 (tok l - knee f) /\ 0 <= swap_out_tokens f * otok l /\ 0 <= swap_in_tokens f * itok l
      /\ 0 <= swap_outs f * nout l /\ 0 <= swap_ins f * nin l) as Z0 by (repeat split; apply Z.mul_nonneg_nonneg; lia).
    destruct (Z.ltb_spec 0 (ndec l + npre l)), (Z.ltb_spec 0 (ndec l)), (Z.ltb_spec 0 (npre l)); cbn [b2z]; lia.
  Qed.
  (* In units of 1 / (divisor * U * V) ticks, with U = supply_of M r and V = most_prefill M (or 1). *)
  Definition room_pre := Z.max 1 (most_prefill M).
  Definition surcharge f := if 1 <=? most_prefill M then extra f else 0.
  Definition mixed f r := blend (supply_of M r * room_pre) (line f) (base f * room_pre) (unit_of r) (surcharge f * supply_of M r).
  Lemma divided f r D : grows f = true -> 1 <= supply_of M r -> (match r with ByPacking k => 1 <= k | _ => True end) ->
    value_of f l <= divisor f * D -> charges M (mixed f r) ss aa <= divisor f * (supply_of M r * room_pre) * D.
  Proof.
    intros G U K V. pose proof (line_le f G) as LE. pose proof (shared_le r U K) as S. unfold mixed.
    rewrite charges_blend, (charges_linear M (line f)) by reflexivity. fold l. unfold grows in G. cbn [forallb] in G.
    rewrite !andb_true_iff, !Z.leb_le in G. decompose [and] G. clear G.
    assert (0 <= base f) by (unfold base; lia). assert (1 <= room_pre) as R1 by (unfold room_pre; lia).
    assert (surcharge f * ptok l <= room_pre * (extra f * b2z (0 <? npre l))) as P.
    { unfold surcharge, room_pre. assert (0 <= extra f) by (unfold extra; lia). destruct (Z.leb_spec 1 (most_prefill M)) as [Q|Q].
      - pose proof (most_prefill_le Q). rewrite Z.max_r by lia. nia.
      - destruct (0 <? npre l); cbn [b2z]; nia. }
    set (u := supply_of M r) in *. set (v := room_pre) in *. set (c := charges M (unit_of r) ss aa) in *.
    set (w := b2z (0 <? ndec l + npre l)) in *. set (x := extra f * b2z (0 <? npre l)) in *. clearbody u v c w x.
    pose proof (Z.mul_le_mono_nonneg_l _ _ (base f * v) ltac:(nia) S) as X1.
    pose proof (Z.mul_le_mono_nonneg_l _ _ u ltac:(lia) P) as X2.
    pose proof (Z.mul_le_mono_nonneg_l _ _ (u * v) ltac:(nia) LE) as X3.
    pose proof (Z.mul_le_mono_nonneg_l _ _ (u * v) ltac:(nia) V) as X4. clear - X1 X2 X3 X4.
    replace (u * v * (linear (line f) l + base f * w + x)) with (u * v * linear (line f) l + base f * v * (u * w) + u * (v * x)) in X3 by ring.
    replace (surcharge f * u * ptok l) with (u * (surcharge f * ptok l)) by ring.
    replace (divisor f * (u * v) * D) with (u * v * (divisor f * D)) by ring. lia.
  Qed.
End Batch.

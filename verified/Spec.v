(* What a schedule is: docs/semantics.md, rule by rule. This file and the statements of the theorems are all that one
   has to believe; docs/verified.md says where each rule stands on the page and in kvcore/rules.py.

   Requests have no names here: a batch has an act for each, in the order of the file, with 0 for what it has no entry
   for. Prefixes that requests share (`contents`, R12) are no part of it: nothing here speaks of such instances. *)
Require Import ZArith List Bool Lia.
Import ListNotations.
Open Scope Z_scope.

(* --- The instance -------------------------------------------------------------------------------------------- *)
Inductive handling := Preserve | Discard | Swap | Free.
Record call := Call { duration : Z; returns : Z; handled : handling }.
Record request := Request {
  arrival : Z; weight : Z; prompt : Z;
  decode : Z;  (* of the first segment *)
  more : list (call * Z) }.  (* each call, with the `decode` of the segment after it *)
Record machine := Machine {
  memory : option Z; block : Z; host_memory : option Z;
  batch_tokens : option Z; prefill_tokens : option Z; batch_requests : option Z;
  hybrid : bool; chunked : bool; evict : bool; partial : bool; pause : bool }.
Record function := Function {  (* of the cost: coefficients, with `above` that of tokens above `knee` *)
  busy : Z; any_decode : Z; any_prefill : Z; tokens : Z; knee : Z; above : Z; generated : Z;
  decode_requests : Z; prefill_requests : Z; decode_kv : Z; prefill_kv : Z; prefill_pairs : Z;
  swap_out_tokens : Z; swap_in_tokens : Z; swap_outs : Z; swap_ins : Z; divisor : Z }.
Record instance := Instance { mach : machine; cost : list function; requests : list request }.

(* --- The state of a request at a boundary -------------------------------------------------------------------- *)
Record state := State {
  known : Z;  (* S; what a call returns is added when it starts: no rule asks for S before the call is over *)
  device : Z; host : Z;  (* m, h *)
  todo : Z; rest : list (call * Z);  (* tokens left to generate in this segment; the calls and segments to come *)
  ready : Z;  (* its arrival, or the end of its latest call *)
  window : option handling;  (* of its call, from the call's start to the next work *)
  due : bool;  (* this batch is the ordered one: the batch before started a call that orders a move *)
  going : bool;  (* without `pause`: it worked in the batch before, which did not end its segment *)
  first : option Z; over : option Z;  (* the end of the batch of its first token, of its last: F, C *)
  arrived : Z; wt : Z }.
Definition start_of (r : request) :=
  State (prompt r) 0 0 (decode r) (more r) (arrival r) None false false None None (arrival r) (weight r).

(* --- A batch ------------------------------------------------------------------------------------------------- *)
Record act := Act { work : Z; drop : Z; out : Z; back : Z }.  (* `out` and `back`: swap_out and swap_in *)
Record batch := Batch { start : Z; acts : list act }.

(* m and h after the drop, which takes host tokens first, and after all moves. *)
Definition m1 s a := device s - (drop a - Z.min (drop a) (host s)).
Definition h1 s a := host s - Z.min (drop a) (host s).
Definition m2 s a := m1 s a - out a + back a.
Definition h2 s a := h1 s a + out a - back a.

(* Phases, and whether a token is generated. *)
Definition decodes s a := negb (work a =? 0) && (0 <? m2 s a) && (known s - m2 s a =? 1).
Definition prefills s a := negb (work a =? 0) && negb (decodes s a).
Definition generates s a := negb (work a =? 0) && (m2 s a + work a =? known s).

(* What a request adds to the features of a batch, to its blocks and its tokens on the host. *)
Record load := Load {
  tok : Z; ptok : Z; gen : Z; ndec : Z; npre : Z; dkv : Z; pkv : Z; pairs : Z;
  otok : Z; itok : Z; nout : Z; nin : Z; blk : Z; hos : Z }.
Definition b2z (b : bool) := if b then 1 else 0.
Definition if0 (b : bool) (x : Z) := if b then x else 0.
Definition ceil_div x q := - ((- x) / q).
Definition load_of M s a := Load
  (work a) (if0 (prefills s a) (work a)) (b2z (generates s a))
  (b2z (decodes s a)) (b2z (prefills s a)) (if0 (decodes s a) (m2 s a)) (if0 (prefills s a) (m2 s a))
  (if0 (prefills s a) (work a * work a + 2 * work a * m2 s a))
  (out a) (back a) (b2z (negb (out a =? 0))) (b2z (negb (back a =? 0)))
  (ceil_div (m2 s a + work a) (block M)) (h2 s a).
Definition none := Load 0 0 0 0 0 0 0 0 0 0 0 0 0 0.
Definition plus x y := Load
  (tok x + tok y) (ptok x + ptok y) (gen x + gen y) (ndec x + ndec y) (npre x + npre y) (dkv x + dkv y)
  (pkv x + pkv y) (pairs x + pairs y) (otok x + otok y) (itok x + itok y) (nout x + nout y) (nin x + nin y)
  (blk x + blk y) (hos x + hos y).
Fixpoint total M ss aa {struct ss} :=
  match ss, aa with
  | s :: ss, a :: aa => plus (load_of M s a) (total M ss aa)
  | _, _ => none
  end.

(* How long a batch lasts. *)
Definition value_of f l :=
  busy f * b2z (0 <? ndec l + npre l) + any_decode f * b2z (0 <? ndec l) + any_prefill f * b2z (0 <? npre l)
  + tokens f * tok l + above f * Z.max 0 (tok l - knee f) + generated f * gen l
  + decode_requests f * ndec l + prefill_requests f * npre l
  + decode_kv f * dkv l + prefill_kv f * pkv l + prefill_pairs f * pairs l
  + swap_out_tokens f * otok l + swap_in_tokens f * itok l + swap_outs f * nout l + swap_ins f * nin l.
Definition lasts fs l := fold_right (fun f d => Z.max (ceil_div (value_of f l) (divisor f)) d) 1 fs.

(* --- The rules ----------------------------------------------------------------------------------------------- *)
Definition calling t s := window s <> None /\ t < ready s.
Definition by_R9 k s := window s = Some Free \/ due s = true /\ window s = Some k.  (* R9 allows or orders it *)
Definition within x (limit : option Z) := match limit with None => True | Some l => x <= l end.

Definition R1 now t := now <= t.
Definition R2 t s a := work a <> 0 -> over s = None /\ ready s <= t.
Definition R3 M s a :=
  work a <> 0 -> 1 <= work a <= known s - m2 s a /\ (chunked M = false -> work a = known s - m2 s a).
Definition R4 s a := work a <> 0 -> h2 s a = 0 /\ (drop a <> 0 -> by_R9 Discard s) /\ (out a <> 0 -> by_R9 Swap s).
Definition R5 M l :=
  within (tok l) (batch_tokens M) /\ within (ptok l) (prefill_tokens M) /\ within (ndec l + npre l) (batch_requests M)
  /\ (hybrid M = false -> ndec l <= 0 \/ npre l <= 0).
Definition R5_pause (s : state) a := going s = true -> work a <> 0 \/ drop a <> 0 \/ out a <> 0.
Definition R6 M l := within (blk l) (option_map (fun m => m / block M) (memory M)).
Definition R7 M l := within (hos l) (host_memory M).
Definition R8 M t s a :=
  (drop a <> 0 -> by_R9 Discard s \/ evict M = true /\ ~ calling t s)
  /\ (out a <> 0 -> by_R9 Swap s \/ evict M = true /\ ~ calling t s)
  /\ (partial M = false ->
      (drop a <> 0 -> drop a = device s + host s)
      /\ (out a <> 0 -> out a = m1 s a)
      /\ (back a <> 0 -> back a = h1 s a + out a)).
Definition R9 t s a :=
  (due s = true -> (window s = Some Discard -> drop a = device s) /\ (window s = Some Swap -> out a = device s))
  /\ (calling t s -> window s = Some Preserve -> back a = 0).
Definition R10 s a := 0 <= drop a <= device s + host s /\ 0 <= out a <= m1 s a /\ 0 <= back a <= h1 s a + out a.
Definition R10_batch l := 0 < ndec l + npre l \/ 0 < nout l + nin l.
Definition R11 (s : state) := over s <> None.

(* What is asked of each request, and of the batch. *)
Definition local M t s a := R2 t s a /\ R3 M s a /\ R4 s a /\ R5_pause s a /\ R8 M t s a /\ R9 t s a /\ R10 s a.
Definition joint M l := R5 M l /\ R6 M l /\ R7 M l /\ R10_batch l.

(* --- Execution ----------------------------------------------------------------------------------------------- *)
Definition orders (k : handling) := match k with Discard | Swap => true | Preserve | Free => false end.

(* What becomes of a request in a batch that ends at e: *)
Definition next M e s a :=
  let h := h2 s a in
  if work a =? 0 then  (* it sits out, *)
    State (known s) (m2 s a) h (todo s) (rest s) (ready s) (window s) false false (first s) (over s) (arrived s) (wt s)
  else
  let m := m2 s a + work a in
  if negb (m =? known s) then  (* some of its tokens are processed, *)
    State (known s) m h (todo s) (rest s) (ready s) None false (negb (pause M)) (first s) (over s) (arrived s) (wt s)
  else  (* or all, and a token is generated: *)
  let f := match first s with None => Some e | f => f end in
  if negb (todo s =? 1) then  (* one within its segment, *)
    State (known s + 1) m h (todo s - 1) (rest s) (ready s) None false (negb (pause M)) f (over s) (arrived s) (wt s)
  else match rest s with
  | [] =>  (* its last, *)
    State (known s + 1) 0 0 0 [] (ready s) None false false f (Some e) (arrived s) (wt s)
  | (c, d) :: r =>  (* or the last before a call. *)
    State (known s + 1 + returns c) m h d r (e + duration c) (Some (handled c)) (orders (handled c)) false f (over s)
      (arrived s) (wt s)
  end.
Fixpoint nexts M e ss aa {struct ss} :=
  match ss, aa with
  | s :: ss, a :: aa => next M e s a :: nexts M e ss aa
  | _, _ => []
  end.

(* From the states `ss` at `now`, the batches lead to the states `zz`; together they last d. *)
Inductive run (I : instance) : Z -> list state -> list batch -> list state -> Z -> Prop :=
| stop now ss : run I now ss [] ss 0
| go now ss t aa bs zz d :
    R1 now t -> Forall2 (local (mach I) t) ss aa -> joint (mach I) (total (mach I) ss aa) ->
    let D := lasts (cost I) (total (mach I) ss aa) in
    run I (t + D) (nexts (mach I) (t + D) ss aa) bs zz d ->
    run I now ss (Batch t aa :: bs) zz (D + d).

(* --- Objectives ---------------------------------------------------------------------------------------------- *)
Inductive objective := Makespan | Busy | Flow | Weighted | Ttft.
Definition at_ (o : option Z) := match o with Some x => x | None => 0 end.
Definition sum {A} (f : A -> Z) l := fold_right (fun x y => f x + y) 0 l.
Definition value (o : objective) (zz : list state) (d : Z) :=
  match o with
  | Makespan => fold_right (fun s x => Z.max (at_ (over s)) x) 0 zz
  | Busy => d
  | Flow => sum (fun s => at_ (over s) - arrived s) zz
  | Weighted => sum (fun s => wt s * (at_ (over s) - arrived s)) zz
  | Ttft => sum (fun s => at_ (first s) - arrived s) zz
  end.

(* A percentile of flow times, or of those to first tokens, by nearest rank: so many may be longer. And those late. *)
Record slo := Slo { to_first : option Z; to_last : option Z; between : option Z }.  (* in whole ticks *)
Inductive goal := Whole (o : objective) | Tail (of_first : bool) (longer : nat) | Late (slos : list slo).
Fixpoint place x l := match l with [] => [x] | y :: l => Z.max x y :: place (Z.min x y) l end.  (* the largest first *)
Definition exceeds x (limit : option Z) := match limit with None => false | Some l => l <? x end.
Definition late q (f c : Z) := exceeds f (to_first q) || exceeds c (to_last q) || exceeds (c - f) (between q).
Fixpoint lates qs (zz : list state) {struct qs} := match qs, zz with
  | q :: qs, s :: zz => b2z (late q (at_ (first s) - arrived s) (at_ (over s) - arrived s)) + lates qs zz
  | _, _ => 0
  end.
Definition result (g : goal) (zz : list state) (d : Z) := match g with
  | Whole o => value o zz d
  | Tail f n => nth n (fold_right place [] (map (fun s => at_ (if f then first s else over s) - arrived s) zz)) 0
  | Late qs => lates qs zz
  end.

(* The schedule `bs` is valid, and v is its value. *)
Definition initial I := map start_of (requests I).
Definition valid I bs g v := exists zz d, run I 0 (initial I) bs zz d /\ Forall R11 zz /\ v = result g zz d.

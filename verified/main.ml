(* Reads what kvbound/machine_checked.py writes: in each line an instance and what is asked of it, as nested lists.
   Trusted, with kvproof.ml: it turns words into the instance, the schedule and the number. Any other form fails. *)
open Kvproof

type form = Word of string | List of form list
let rec forms = function  (* the forms of a list, and the words after it *)
  | [] | ")" :: [] -> [], []
  | ")" :: words -> [], words
  | "(" :: words ->
    let inner, words = forms words in
    let more, words = forms words in
    List inner :: more, words
  | word :: words ->
    let more, words = forms words in
    Word word :: more, words

let number least (Word text) =
  let n = Big_int_Z.big_int_of_string text in
  if Big_int_Z.lt_big_int n (Big_int_Z.big_int_of_int least) then failwith ("too small: " ^ text) else n
let z = number 0
let int form = Big_int_Z.int_of_big_int (z form)
let maybe form = if form = Word "-" then None else Some (z form)
let one_of named (Word name) = List.assoc name named
let flag = one_of ["0", false; "1", true]
let handling = one_of ["preserve", Preserve; "discard", Discard; "swap", Swap; "free", Free]
let all f (List forms) = List.map f forms

let machine (List [m; b; h; c; p; r; hybrid; chunked; evict; partial; pause]) =
  { memory = maybe m; block = number 1 b; host_memory = maybe h; batch_tokens = maybe c; prefill_tokens = maybe p;
    batch_requests = maybe r; hybrid = flag hybrid; chunked = flag chunked; evict = flag evict;
    partial = flag partial; pause = flag pause }
let cost_function (List (divisor :: coefficients)) =
  let [busy; any_decode; any_prefill; tokens; knee; above; generated; decode_requests; prefill_requests; decode_kv;
       prefill_kv; prefill_pairs; swap_out_tokens; swap_in_tokens; swap_outs; swap_ins] = List.map z coefficients in
  { busy; any_decode; any_prefill; tokens; knee; above; generated; decode_requests; prefill_requests; decode_kv;
    prefill_kv; prefill_pairs; swap_out_tokens; swap_in_tokens; swap_outs; swap_ins; divisor = number 1 divisor }
let call (List [duration; returns; handled; decode]) =
  { duration = z duration; returns = z returns; handled = handling handled }, number 1 decode
let request (List [arrival; weight; prompt; decode; more]) =
  { arrival = z arrival; weight = z weight; prompt = number 1 prompt; decode = number 1 decode; more = all call more }
let slo (List [f; l; b]) = { to_first = maybe f; to_last = maybe l; between = maybe b }

let act (List [place; work; drop; out; back]) =
  int place, { work = z work; drop = z drop; out = z out; back = z back }
let batch size (List [start; entries]) =
  let acts = all act entries and zero = Big_int_Z.zero_big_int in
  let idle = { work = zero; drop = zero; out = zero; back = zero } in
  { start = number min_int start; acts = List.init size (fun k -> Option.value ~default:idle (List.assoc_opt k acts)) }

let objectives =
  ["makespan", Makespan; "busy-time", Busy; "total-flow-time", Flow; "weighted-flow-time", Weighted; "total-ttft", Ttft]
let goal slos = function
  | List [Word "tail"; first; longer] -> Tail (flag first, int longer)
  | Word "late-requests" -> Late slos
  | name -> Whole (one_of objectives name)
let resource = function
  | Word "memory" -> ByMemory | Word "tokens" -> ByTokens | Word "prefill_tokens" -> ByPrefill
  | List [Word "packing"; packs] -> ByPacking (number 1 packs)
let row (List [pblk; phos; ptk; ppt; prq]) = { pblk = z pblk; phos = z phos; ptk = z ptk; ppt = z ppt; prq = z prq }
let prices (List [since; rows]) = int since, all row rows

let judge inst slos batches =
  let value o = match referee inst batches o with None -> "invalid" | Some v -> Big_int_Z.string_of_big_int v in
  let goals = List.map (fun (_, o) -> Whole o) objectives @ [Tail (false, 0); Late slos] in
  String.concat " " (List.map value goals)

let answer line =
  let [machine_form; functions; requests; slos; asked], [] = forms (String.split_on_char ' ' line) in
  let inst = { mach = machine machine_form; cost = all cost_function functions; requests = all request requests } in
  let slos = all slo slos in
  match asked with
  | List [Word "judge"; batches] -> judge inst slos (all (batch (List.length inst.requests)) batches)
  | List [Word "alone"; aim; bound] ->
    let best = alone inst (goal slos aim) in
    if simple inst && Big_int_Z.le_big_int (z bound) best then "proved " ^ Big_int_Z.string_of_big_int (z bound) ^ " by requests alone"
    else "not proved: alone, requests prove " ^ Big_int_Z.string_of_big_int best
  | List [Word "shares"; objective; bound; place; by] ->
    if Shares.prove inst (one_of objectives objective) (int place) (resource by) (z bound)
    then "proved " ^ Big_int_Z.string_of_big_int (z bound) ^ " by shares" else "not proved by these shares"
  | List [Word "speed"; objective; bound; place; by; part; fee; slot; scale; level; cells; price; rows; group] ->
    (match Speed.prove inst (one_of objectives objective) (int place) (resource by) (int part) (int fee) (number 1 slot) (number 1 scale)
      (all z price) (all (all z) rows) (all int group) (int level) (int cells) (z bound) with
    | true -> "proved " ^ Big_int_Z.string_of_big_int (z bound) ^ " by prices of work"
    | false -> "not proved by these prices of work"
    | exception Speed.Large -> Printf.sprintf "not proved: more than %d steps" Speed.most)
  | List [Word "search"; aim; bound; scale; strict; most; vectors] ->
    let o = if aim = Word "max-flow-time" then None else Some (one_of objectives aim) in
    Search.prove inst o (z bound) (int scale) (flag strict) (all prices vectors) (int most)

let () = try while true do print_endline (answer (input_line stdin)) done with End_of_file -> ()

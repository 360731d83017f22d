(* Reads what kvbound/machine_checked.py writes, on the standard input, and answers each `judge` and `bound` in a line.
   Trusted, with kvproof.ml: the first is what turns lines into the instance, the schedule and the number. *)
open Kvproof

let number least text =
  let n = Big_int_Z.big_int_of_string text in
  if Big_int_Z.lt_big_int n (Big_int_Z.big_int_of_int least) then failwith ("too small: " ^ text) else n
let z = number 0
let maybe text = if text = "-" then None else Some (z text)
let flag = function "0" -> false | "1" -> true | text -> failwith ("no flag: " ^ text)

let handling = function
  | "preserve" -> Preserve | "discard" -> Discard | "swap" -> Swap | "free" -> Free
  | text -> failwith ("no handling: " ^ text)

let objectives =
  ["makespan", Makespan; "busy-time", Busy; "total-flow-time", Flow; "weighted-flow-time", Weighted; "total-ttft", Ttft]

let machine = function
  | [m; b; h; c; p; r; hybrid; chunked; evict; partial; pause] ->
    { memory = maybe m; block = number 1 b; host_memory = maybe h; batch_tokens = maybe c; prefill_tokens = maybe p;
      batch_requests = maybe r; hybrid = flag hybrid; chunked = flag chunked; evict = flag evict;
      partial = flag partial; pause = flag pause }
  | _ -> failwith "machine"

let cost_function = function
  | divisor :: coefficients -> (match List.map z coefficients with
    | [busy; any_decode; any_prefill; tokens; knee; above; generated; decode_requests; prefill_requests; decode_kv;
       prefill_kv; prefill_pairs; swap_out_tokens; swap_in_tokens; swap_outs; swap_ins] ->
      { busy; any_decode; any_prefill; tokens; knee; above; generated; decode_requests; prefill_requests; decode_kv;
        prefill_kv; prefill_pairs; swap_out_tokens; swap_in_tokens; swap_outs; swap_ins;
        divisor = number 1 divisor }
    | _ -> failwith "function")
  | [] -> failwith "function"

let rec calls = function
  | [] -> []
  | duration :: returns :: handled :: decode :: l ->
    ({ duration = z duration; returns = z returns; handled = handling handled }, number 1 decode) :: calls l
  | _ -> failwith "calls"

let request = function
  | arrival :: weight :: prompt :: decode :: l ->
    { arrival = z arrival; weight = z weight; prompt = number 1 prompt; decode = number 1 decode; more = calls l }
  | _ -> failwith "request"

let batch size = function
  | start :: l ->
    let zero = z "0" in
    let acts = Array.make size { work = zero; drop = zero; out = zero; back = zero } in
    let rec fill = function
      | [] -> ()
      | place :: work :: drop :: out :: back :: l ->
        acts.(int_of_string place) <- { work = z work; drop = z drop; out = z out; back = z back };
        fill l
      | _ -> failwith "batch" in
    fill l;
    { start = Big_int_Z.big_int_of_string start; acts = Array.to_list acts }
  | [] -> failwith "batch"

let row line = match List.map z line with
  | [pblk; phos; ptk; ppt; prq] -> { pblk; phos; ptk; ppt; prq }
  | _ -> failwith "row"

let slo = function
  | [f; l; b] -> { to_first = maybe f; to_last = maybe l; between = maybe b }
  | _ -> failwith "slo"

let goal slos = function
  | ["late-requests"] -> Late slos
  | ["tail"; first; longer] -> Tail (flag first, int_of_string longer)
  | [name] -> Whole (List.assoc name objectives)
  | _ -> failwith "objective"

let alone_bound inst g bound =
  let best = alone inst g in
  if simple inst && Big_int_Z.le_big_int bound best then "proved " ^ Big_int_Z.string_of_big_int bound ^ " by requests alone"
  else "not proved: alone, requests prove " ^ Big_int_Z.string_of_big_int best

let resource = function
  | ["memory"] -> ByMemory | ["packing"; k] -> ByPacking (number 1 k) | ["tokens"] -> ByTokens
  | ["prefill_tokens"] -> ByPrefill
  | _ -> failwith "resource"

let judge inst slos batches =
  let value (_, o) = match referee inst batches o with
    | None -> "invalid"
    | Some v -> Big_int_Z.string_of_big_int v in
  let goals = List.map (fun (name, o) -> name, Whole o) objectives in
  let others = ["max-flow-time", Tail (false, 0); "late-requests", Late slos] in
  print_endline (String.concat " " (List.map value (goals @ others)))

let () =
  let m = ref None and functions = ref [] and requests = ref [] and batches = ref [] and prices = ref []
  and slos = ref [] in
  let inst () = { mach = Option.get !m; cost = List.rev !functions; requests = List.rev !requests } in
  let read line = match String.split_on_char ' ' line with
    | "machine" :: l ->
      m := Some (machine l); functions := []; requests := []; batches := []; prices := [];
      slos := []
    | "function" :: l -> functions := cost_function l :: !functions
    | "request" :: l -> requests := request l :: !requests
    | "slo" :: l -> slos := slo l :: !slos
    | "batch" :: l -> batches := batch (List.length !requests) l :: !batches
    | ["judge"] -> judge (inst ()) (List.rev !slos) (List.rev !batches)
    | "alone" :: bound :: name -> print_endline (alone_bound (inst ()) (goal (List.rev !slos) name) (z bound))
    | "shares" :: objective :: bound :: place :: r ->
      let o = List.assoc objective objectives in
      let proved = Shares.prove (inst ()) o (int_of_string place) (resource r) (z bound) in
      print_endline (if proved then "proved " ^ bound ^ " by shares" else "not proved by these shares")
    | ["prices"; since] -> prices := (int_of_string since, []) :: !prices
    | "row" :: l -> prices := (match !prices with (k, rows) :: more -> (k, row l :: rows) :: more | [] -> failwith "row")
    | ["bound"; objective; bound; scale; strict; most] ->
      let o = if objective = "max-flow-time" then None else Some (List.assoc objective objectives) in
      print_endline (Search.prove (inst ()) o (z bound) (int_of_string scale) (flag strict)
        (List.rev_map (fun (k, rows) -> k, List.rev rows) !prices) (int_of_string most))
    | _ -> failwith ("not understood: " ^ line) in
  try while true do read (input_line stdin) done with End_of_file -> ()

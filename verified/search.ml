(* Finds a certificate for `check`. Nothing here is believed: `check` judges what it finds. *)
open Kvproof
exception Below of int  (* an end below the bound *)
exception Enough of int  (* more states than allowed *)

let big = Big_int_Z.big_int_of_int
let int = Big_int_Z.int_of_big_int

let hash k ss =
  let h = ref (int k) in
  let mix x = h := (!h * 1000003) lxor x in
  let number s =
    List.iter (fun x -> mix (int x)) [s.device; s.known; s.host; s.todo; s.ready];
    mix (List.length s.rest);
    mix (match s.window with None -> 0 | Some Free -> 1 | Some Preserve -> 2 | Some Swap -> 3 | Some Discard -> 4);
    mix ((if s.due then 1 else 0) + (if s.going then 2 else 0) + (if s.over = None then 0 else 4)) in
  List.iter number ss;
  big (1 + (((!h lsr 20) lxor !h) land 0xfffff))

let key (s : state) =
  (int s.device, int s.known, int s.todo, int s.ready, int s.host, List.length s.rest, s.going)
let leb a b = compare (key a) (key b) <= 0

module Table = Hashtbl.Make (struct
  type t = int * state list
  let equal (a, x) (b, y) = a = b && list_eqb state_eqb x y
  let hash (k, ss) = int (hash (big k) ss)
end)
module Queue = Stdlib.Map.Make (Int)

let entry k states mark = { clock = big k; states; mark_of = big mark }

(* The steps of the longest request: as many slots after the last price have entries. *)
let longest inst =
  let steps (r : request) =
    List.fold_left (fun n (c, d) -> n + int c.duration + int d) (int r.prompt + int r.decode) r.more in
  List.fold_left (fun n r -> max n (steps r)) 0 inst.requests

(* States with the least cost so far, all from which the bound could still be missed. *)
let states inst o target most options =
  let m = inst.mach and timed = o <> Busy in
  let best = Table.create 100000 and queue = ref Queue.empty in
  let sorted n ss = sort leb (List.map (norm timed (big n)) ss) in
  let add ss b =
    let known = Table.find_opt best (0, ss) in
    if (known = None || Option.get known > b) && b < target then begin
      if Table.length best >= most then raise (Enough most);
      Table.replace best (0, ss) b;
      let into = function None -> Some [ss, b] | Some l -> Some ((ss, b) :: l) in
      queue := Queue.update b into !queue
    end in
  let expand (ss, b) =
    if Table.find best (0, ss) = b then begin
      if List.for_all (fun s -> s.over <> None) ss then raise (Below b);
      if timed then add (sorted 1 ss) (b + int (rate o ss));
      let batch load acts =
        if jointb m load then begin
          let d = lasts inst.cost load in
          add (sorted (int d) (nexts m d ss (List.rev acts))) (b + int (fee o ss d))
        end;
        true in
      ignore (every m batch (List.map (fun s -> List.map (fun x -> x, []) (options s)) ss) none [] [])
    end in
  add (origin inst o leb) 0;
  while not (Queue.is_empty !queue) do
    let first, l = Queue.min_binding !queue in
    queue := Queue.remove first !queue;
    List.iter expand l
  done;
  Table.fold (fun (_, ss) b l -> entry 0 ss b :: l) best []

let prove inst o bound most =
  let cache = Table.create 1000 in
  let options s = match Table.find_opt cache (0, [s]) with
    | Some x -> x
    | None -> let x = opts inst.mach s in Table.add cache (0, [s]) x; x in
  let kept = states inst o (int (target_of inst o bound (big 1))) most options in
  check inst o bound leb hash kept, List.length kept

(* --- If every batch lasts a tick: the graph of the requests, and joint states tick by tick ----------------------- *)
let tree l =
  let buckets = Hashtbl.create 1000 in
  List.iter (fun (k, x) -> Hashtbl.replace buckets k (x :: Option.value ~default:[] (Hashtbl.find_opt buckets k))) l;
  let sorted = Array.of_list (List.sort (fun (a, _) (b, _) -> Int.compare a b) (List.of_seq (Hashtbl.to_seq buckets))) in
  let rec build low high = if low >= high then Tip else
    let mid = (low + high) / 2 in
    let k, x = sorted.(mid) in
    Fork (build low mid, k, x, build (mid + 1) high) in
  build 0 (Array.length sorted)
let rec map_tree f = function Tip -> Tip | Fork (l, k, x, h) -> Fork (map_tree f l, k, f x, map_tree f h)
let of_state s = int (hash (big 0) [s])
let of_nodes ns = List.fold_left (fun h n -> (h * 1000003) lxor (n + 17)) 0 ns land max_int
module Joint = Hashtbl.Make (struct type t = int list let equal (a : t) b = a = b let hash = of_nodes end)

(* Limits that can bind (else -1): others are never reached, or only with another one, which is `implied` by. *)
let uses l = Array.map int [| l.blk; l.hos; l.tok; l.ptok; Big_int_Z.add_big_int l.ndec l.npre |]
let binding m rows needed =
  let limit = Array.map (function Some x -> int x | None -> -1) [|
    Option.map (fun x -> Big_int_Z.div_big_int x m.block) m.memory; m.host_memory; m.batch_tokens; m.prefill_tokens; m.batch_requests |] in
  let implied = ref [] and whole = Array.copy limit in
  let spare r =
    let by q = q <> r && limit.(q) > 0 && limit.(r) >= 0 && List.for_all (fun u -> u.(r) * limit.(q) <= u.(q) * limit.(r)) rows in
    if needed.(r) > limit.(r) then Option.iter (fun q -> implied := (r, q) :: !implied; limit.(r) <- -1) (List.find_opt by [0; 1; 2; 3; 4])
    else limit.(r) <- -1 in
  List.iter spare [2; 3; 4; 1; 0];
  let fold row =
    let p = Array.map int [| row.pblk; row.phos; row.ptk; row.ppt; row.prq |] in
    List.iter (fun (r, q) -> p.(q) <- p.(q) + p.(r) * whole.(r) / whole.(q)) (List.rev !implied);
    match List.mapi (fun r x -> big (if limit.(r) < 0 then 0 else x)) (Array.to_list p) with
    | [pblk; phos; ptk; ppt; prq] -> { pblk; phos; ptk; ppt; prq }
    | _ -> row in
  limit, fold

(* A node for each state; then one for all that are as good as each other by the largest simulation, of as much progress. *)
let graph inst o strict =
  let ids = Table.create 10000 and todo = Stdlib.Queue.create () and made = ref [] in
  let id s = match Table.find_opt ids (0, [s]) with
    | Some n -> n
    | None -> let n = Table.length ids in Table.add ids (0, [s]) n; Stdlib.Queue.add s todo; n in
  let on s = id (norm true (big 1) s) in
  let thin good edges =
    let as_good (n', l') (n, l) = good n' n && answers inst strict l' l in
    let one kept e =
      if List.exists (fun e' -> as_good e' e) kept then kept else e :: List.filter (fun e' -> not (as_good e e')) kept in
    List.fold_left one [] edges in
  let node s =
    let edges = List.map (fun (a, l) -> on (next inst.mach (big 1) s a), l) (opts inst.mach s) in
    { idle = on s; ended = s.over <> None; rated = urate o s; hold = held inst.mach s; edges = thin (=) edges; better = [] } in
  List.iter (fun s -> ignore (id (norm true (big 0) s))) (initial inst);
  while not (Stdlib.Queue.is_empty todo) do
    let s = Stdlib.Queue.take todo in
    made := (node s, (s.known, s.todo, s.rest, s.ready, s.wt, s.first, s.over)) :: !made
  done;
  let all = Array.of_list (List.rev !made) in
  let rows = Hashtbl.create 1000 and needed = Array.make 5 0 and most = Hashtbl.create 100 in
  Array.iter (fun (x, _) -> List.iter (fun (_, l) -> Hashtbl.replace rows (uses l) ()) x.edges) all;
  let most_of start =
    let seen = Hashtbl.create 100 and most = Array.make 5 0 in
    let rec visit n = if not (Hashtbl.mem seen n) then begin
      Hashtbl.add seen n ();
      let x = fst all.(n) in
      List.iter (fun (n, l) -> Array.iteri (fun r u -> most.(r) <- max u most.(r)) (uses l); visit n) x.edges;
      visit x.idle
    end in
    visit start; most in
  let need x =
    let n = id (norm true (big 0) x) in
    if not (Hashtbl.mem most n) then Hashtbl.add most n (most_of n);
    Array.iteri (fun r u -> needed.(r) <- needed.(r) + u) (Hashtbl.find most n) in
  List.iter need (initial inst);
  let limit, fold = binding inst.mach (List.of_seq (Hashtbl.to_seq_keys rows)) needed in
  let slim l =
    let keep r x = if limit.(r) < 0 then big 0 else x and sum = Big_int_Z.add_big_int l.ndec l.npre in
    let l' = { none with blk = keep 0 l.blk; hos = keep 1 l.hos; tok = keep 2 l.tok; ptok = keep 3 l.ptok } in
    let l' = if inst.mach.hybrid then { l' with npre = keep 4 sum } else { l' with ndec = l.ndec; npre = l.npre } in
    if strict then { l' with nout = Big_int_Z.sub_big_int (act_of l) (act_of l') } else l' in
  let all = Array.map (fun (x, k) ->
    { x with hold = slim x.hold; edges = thin (=) (List.map (fun (n, l) -> n, slim l) x.edges) }, k) all in
  let groups = Hashtbl.create 1000 and good = Hashtbl.create 10000 in
  let peers n = Hashtbl.find_all groups (snd all.(n)) and places = List.init (Array.length all) (fun n -> n) in
  List.iter (fun n -> Hashtbl.add groups (snd all.(n)) n) places;
  let as_good a b = a = b || Hashtbl.mem good (a, b) in
  let simulates (a, b) =
    let x = fst all.(a) and y = fst all.(b) in
    as_good x.idle y.idle
    && List.for_all (fun (n, l) -> List.exists (fun (n', l') -> as_good n' n && answers inst strict l' l) x.edges) y.edges in
  let may (a, b) = a <> b && mostb (fst all.(a)).hold (fst all.(b)).hold in
  let rec settle pairs =
    let left = List.filter (fun p -> simulates p || (Hashtbl.remove good p; false)) pairs in
    if List.compare_lengths left pairs < 0 then settle left in
  let pairs = List.filter may (List.concat_map (fun b -> List.map (fun a -> a, b) (peers b)) (List.rev places)) in
  List.iter (fun p -> Hashtbl.replace good p ()) pairs;
  settle pairs;
  let same = Array.init (Array.length all) (fun n ->
    List.fold_left (fun m p -> if as_good p n && as_good n p then min m p else m) n (peers n)) in
  let reduced n =
    let x = fst all.(n) in
    n, { x with idle = same.(x.idle); edges = thin as_good (List.map (fun (n, l) -> same.(n), l) x.edges);
      better = List.filter (fun p -> p <> n && same.(p) = p && as_good p n) (peers n) } in
  let nodes = List.map reduced (List.filter (fun n -> same.(n) = n) places) in
  let names = Table.fold (fun (_, l) n names -> (of_state (List.hd l), (List.hd l, same.(n))) :: names) ids [] in
  map_tree List.hd (tree nodes), tree names, (fun s -> same.(id s)), fold

(* The layers of joint states from which the bound could still be missed. *)
let layers inst o scale target strict nodes vectors start most =
  let same ns = ns and count = ref 0 in
  let add layer ps nn b = match Joint.find_opt layer nn with
    | Some b' when Big_int_Z.le_big_int b' b -> ()
    | known -> if not (settled target nodes of_nodes same ps Tip nn b) then begin
        if known = None then incr count;
        if !count > most then raise (Enough most);
        Joint.replace layer nn b
      end in
  let rec go vs layer made =
    if Joint.length layer = 0 then List.rev made
    else begin
      let vs = later vs and next = Joint.create 1000 in
      let ps = now_of vs in
      Joint.iter (fun nn b ->
        if List.for_all (fun n -> (at_node nodes n).ended) nn then raise (Below (int b));
        let b = Big_int_Z.(add_big_int b (mult_big_int scale (rate_of o nodes nn))) in
        add next ps (arrange (List.map (fun n -> (at_node nodes n).idle) nn)) b;
        let chosen = List.map (options nodes ps) nn in
        let batch l nn = if usable inst strict l then add next [] (arrange nn) b; true in
        ignore (each inst batch (List.map snd chosen) none [] (slack_of target ps b chosen))) layer;
      go vs next (tree (Joint.fold (fun nn b l -> (of_nodes nn, (nn, b)) :: l) layer []) :: made)
    end in
  let first = Joint.create 1 in
  add first (now_of vectors) (arrange start) (big 0);
  let made = go vectors first [] in
  made, !count

let by_slots inst o bound scale strict prices most =
  let free = { pblk = big 0; phos = big 0; ptk = big 0; ppt = big 0; prq = big 0 } in
  let more = List.init (longest inst) (fun _ -> free) and s = big scale in
  let nodes, names, place, fold = graph inst o strict in
  let rec from k l = if k > 0 && l <> [] then from (k - 1) (List.tl l) else l in
  let rec latest = function  (* the first vector, and a dozen of the latest *)
    | [] -> []
    | (since, rows) :: l -> let until = match List.nth_opt l 11 with Some (k, _) -> k - since | None -> max_int in
      { from = since; ticks = until; costs = List.map fold (from since rows) @ more } :: latest l in
  let prices = match latest prices with p :: l -> { p with ticks = max_int } :: l | [] -> [] in
  let vectors = List.map (fun p -> { since = p.from; span = p.ticks; layers = layers_of inst s nodes p.costs }) prices in
  let start = List.map (fun x -> place (norm true (big 0) x)) (initial inst) in
  let found, count = layers inst o s (target_of inst o bound s) strict nodes vectors start most in
  check_slots inst o bound s strict nodes names of_state of_nodes (fun ns -> ns) prices found, count

let prove inst o bound scale strict prices most =
  try
    let proved, count = if prices = [] && not (steady inst o) then prove inst o bound most
      else by_slots inst o bound scale strict (if prices = [] then [0, []] else prices) (5 * most) in  (* a state takes less *)
    if proved then Printf.sprintf "proved %s by %d states" (Big_int_Z.string_of_big_int bound) count
    else "not proved: the checker refuses what was found"
  with
  | Below b -> Printf.sprintf "not proved: a schedule ends at %d" ((b + scale - 1) / scale - int (offset inst o))
  | Enough most -> Printf.sprintf "not proved: more than %d states" most

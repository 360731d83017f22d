(* Finds a certificate for `check`. Nothing here is believed: `check` judges what it finds. *)
open Kvproof
exception Below of int  (* an end below the bound *)
exception Enough  (* more states than allowed *)

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
      if Table.length best >= most then raise Enough;
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

(* A node for each state. *)
let graph inst o strict =
  let ids = Table.create 10000 and todo = Stdlib.Queue.create () in
  let id s = match Table.find_opt ids (0, [s]) with
    | Some n -> n
    | None -> let n = Table.length ids in Table.add ids (0, [s]) n; Stdlib.Queue.add (n, s) todo; n in
  let on s = id (norm true (big 1) s) in
  let one kept (n, l) =
    if List.exists (fun (n', l') -> n' = n && answers inst strict l' l) kept then kept
    else (n, l) :: List.filter (fun (n', l') -> n' <> n || not (answers inst strict l l')) kept in
  let node s =
    let edges = List.map (fun (a, l) -> on (next inst.mach (big 1) s a), l) (opts inst.mach s) in
    { idle = on s; ended = s.over <> None; rated = urate o s; hold = held inst.mach s;
      edges = List.fold_left one [] edges; better = [] } in
  List.iter (fun s -> ignore (id (norm true (big 0) s))) (initial inst);
  let nodes = ref [] in
  while not (Stdlib.Queue.is_empty todo) do
    let n, s = Stdlib.Queue.take todo in
    nodes := (n, node s) :: !nodes
  done;
  let names = Table.fold (fun (_, l) n names -> (of_state (List.hd l), (List.hd l, n)) :: names) ids [] in
  map_tree List.hd (tree !nodes), tree names, ids

(* The layers of joint states from which the bound could still be missed. *)
let layers inst o scale target strict nodes vectors start most =
  let same ns = ns and count = ref 0 in
  let add layer ps nn b = match Joint.find_opt layer nn with
    | Some b' when Big_int_Z.le_big_int b' b -> ()
    | known -> if not (settled target nodes of_nodes same ps Tip nn b) then begin
        if known = None then incr count;
        if !count > most then raise Enough;
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
  let nodes, names, ids = graph inst o strict in
  let rec from k l = if k > 0 && l <> [] then from (k - 1) (List.tl l) else l in
  let rec latest = function  (* the first vector, and a dozen of the latest *)
    | [] -> []
    | (since, rows) :: l -> let until = match List.nth_opt l 11 with Some (k, _) -> k - since | None -> max_int in
      { from = since; ticks = until; costs = from since rows @ more } :: latest l in
  let prices = match latest prices with p :: l -> { p with ticks = max_int } :: l | [] -> [] in
  let vectors = List.map (fun p -> { since = p.from; span = p.ticks; layers = layers_of inst s nodes p.costs }) prices in
  let start = List.map (fun x -> Table.find ids (0, [norm true (big 0) x])) (initial inst) in
  let found, count = layers inst o s (target_of inst o bound s) strict nodes vectors start most in
  check_slots inst o bound s strict nodes names of_state of_nodes (fun ns -> ns) prices found, count

let prove inst o bound scale strict prices most =
  try
    let proved, count = if prices = [] then prove inst o bound most else by_slots inst o bound scale strict prices most in
    if proved then Printf.sprintf "proved %s by %d states" (Big_int_Z.string_of_big_int bound) count
    else "not proved: the checker refuses what was found"
  with
  | Below b -> Printf.sprintf "not proved: a schedule ends at %d" ((b + scale - 1) / scale - int (offset inst o))
  | Enough -> Printf.sprintf "not proved: more than %d states" most

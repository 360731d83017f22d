(* Finds certificates for `check`, `check_slots` and `check_longest`. Nothing here is believed: they judge what it finds. *)
open Kvproof
open Big_int_Z
exception Below of int  (* an end below the bound *)
exception Enough of int  (* more states than allowed *)

let big = big_int_of_int
let int = int_of_big_int
let of_state (s : state) = Hashtbl.hash_param 400 400 s
let of_states _ (ss : state list) = big (1 + Hashtbl.hash_param 400 400 ss)
module Table = Hashtbl.Make (struct
  type t = state list
  let equal = list_eqb state_eqb
  let hash ss = Hashtbl.hash_param 400 400 ss
end)
module Queue = Stdlib.Map.Make (Int)

(* States with the least cost so far, all from which the bound could still be missed. Of those that differ in waits alone,
   one that is at no higher cost after idling until all its requests are as near takes the others' place. *)
let states inst o bound most =
  let m = inst.mach and timed = o <> Busy and target = int (target_of inst o bound (big 1)) in
  let timeless s = { s with ready = big 0 } in
  let leb a b = match compare (timeless a) (timeless b) with 0 -> le_big_int a.ready b.ready | c -> c < 0 in
  let best = Table.create 100000 and queue = ref Queue.empty and cache = Table.create 1000 and count = ref 0 in
  let options s = match Table.find_opt cache [s] with Some x -> x | None -> let x = opts m s in Table.add cache [s] x; x in
  let sorted n ss = sort leb (List.map (norm timed n) ss) and near ss = List.map (fun s -> int s.ready) ss in
  let among ss = Option.value ~default:[] (Table.find_opt best (List.map timeless ss)) in
  let replaces rate waits b (_, waits', b') =
    b' <= b && b' + rate * List.fold_left2 (fun n w w' -> max n (w' - w)) 0 waits waits' <= b in
  let add ss b = if b < target then begin
    let rate = int (rate o ss) and waits = near ss and peers = among ss in
    if not (List.exists (replaces rate waits b) peers) then begin
      let left = List.filter (fun (_, w, b') -> not (replaces rate w b' (ss, waits, b))) peers in
      count := !count + 1 + List.length left - List.length peers;
      if !count > most then raise (Enough most);
      Table.replace best (List.map timeless ss) ((ss, waits, b) :: left);
      queue := Queue.update b (fun l -> Some (ss :: Option.value ~default:[] l)) !queue
    end
  end in
  let expand b ss = if List.exists (fun (ss', _, _) -> ss' == ss) (among ss) then begin
    if List.for_all (fun s -> s.over <> None) ss then raise (Below b);
    let start wait =
      let b = b + int (rate o ss) * int wait and now = List.map (norm timed wait) ss in
      let batch load acts =
        let d = lasts inst.cost load and acts = List.rev acts in
        let starts = sign_big_int wait = 0 || List.exists2 (fun s a -> active a && eq_big_int s.ready wait) ss acts in
        if jointb m load && starts then add (sorted d (nexts m d now acts)) (b + int (fee o ss d));
        true in
      if b < target then ignore (every m batch (List.map options now) none []) in
    List.iter start (big 0 :: waits ss)
  end in
  add (origin inst o leb) 0;
  while not (Queue.is_empty !queue) do
    let b, l = Queue.min_binding !queue in
    queue := Queue.remove b !queue;
    List.iter (expand b) l
  done;
  let kept = Table.fold (fun _ l k -> List.map (fun (states, _, b) -> { clock = big 0; states; mark_of = big b }) l @ k) best [] in
  let steer ss b = match List.find_opt (replaces (int (rate o ss)) (near ss) (int b)) (among ss) with Some (ss, _, _) -> ss | None -> ss in
  check inst o bound leb of_states steer kept, List.length kept

(* --- If every batch lasts a tick: the graph of the requests, and joint states tick by tick ----------------------- *)
let groups l =
  let found = Hashtbl.create 1000 in
  List.iter (fun (k, x) -> Hashtbl.replace found k (x :: Option.value ~default:[] (Hashtbl.find_opt found k))) l;
  found
let tree item l =
  let sorted = Array.of_list (List.sort (fun (a, _) (b, _) -> compare a b) (List.of_seq (Hashtbl.to_seq (groups l)))) in
  let rec build low high = if low >= high then Tip else
    let mid = (low + high) / 2 in
    Fork (build low mid, fst sorted.(mid), item (snd sorted.(mid)), build (mid + 1) high) in
  build 0 (Array.length sorted)
let set ns = tree List.hd (List.map (fun n -> n, n) ns)
let of_nodes ns = List.fold_left (fun h n -> (h * 1000003) lxor (n + 17)) 0 ns land max_int
module Joint = Hashtbl.Make (struct type t = int list let equal = list_eqb ((=) : int -> int -> bool) let hash = of_nodes end)

(* Limits that can bind (else -1): others are never reached, or only with another one, which is `implied` by. *)
let uses l = Array.map int [| l.blk; l.hos; l.tok; l.ptok; add_big_int l.ndec l.npre |]
let binding m rows needed =
  let limit = Array.map (function Some x -> int x | None -> -1)
    [| Option.map (fun x -> div_big_int x m.block) m.memory; m.host_memory; m.batch_tokens; m.prefill_tokens; m.batch_requests |] in
  let implied = ref [] and whole = Array.copy limit in
  let spare r =
    let by q = q <> r && limit.(q) > 0 && limit.(r) >= 0 && List.for_all (fun u -> u.(r) * limit.(q) <= u.(q) * limit.(r)) rows in
    if needed.(r) > limit.(r) then Option.iter (fun q -> implied := (r, q) :: !implied; limit.(r) <- -1) (List.find_opt by [0; 1; 2; 3; 4])
    else limit.(r) <- -1 in
  List.iter spare [2; 3; 4; 1; 0];
  limit, fun row ->
    let p = Array.map int [| row.pblk; row.phos; row.ptk; row.ppt; row.prq |] in
    List.iter (fun (r, q) -> p.(q) <- p.(q) + p.(r) * whole.(r) / whole.(q)) (List.rev !implied);
    let p r = big (if limit.(r) < 0 then 0 else p.(r)) in
    { pblk = p 0; phos = p 1; ptk = p 2; ppt = p 3; prq = p 4 }

(* Which nodes are as good as others of their group, of fewer or as many requests, whatever may follow: the largest
   simulation, row by row. *)
let simulation inst strict group kinds all =
  let found = groups (List.rev (List.init (Array.length all) (fun n -> group n, n))) and known = Hashtbl.create 1000 in
  let peers n _ = match Hashtbl.find_opt known (group n, kinds.(n)) with
    | Some ns -> ns
    | None ->
      let ns = Array.of_list (List.filter (fun p -> subset kinds.(n) kinds.(p)) (Hashtbl.find found (group n))) in
      Hashtbl.add known (group n, kinds.(n)) ns; ns in
  let peers = Array.mapi peers all in
  let row = Array.map (fun ns -> Bytes.make (Array.length ns) '1') peers in
  let rec place (a : int) ns low high =
    let mid = (low + high) / 2 in
    if low >= high then -1 else if ns.(mid) = a then mid else if ns.(mid) < a then place a ns (mid + 1) high else place a ns low mid in
  let as_good a b = a = b || (let k = place a peers.(b) 0 (Array.length peers.(b)) in k >= 0 && Bytes.get row.(b) k = '1') in
  let rec sweep () =
    let fell = ref false in
    let falls b k a = if a <> b && Bytes.get row.(b) k = '1' && not (simulates inst strict as_good all.(b) all.(a)) then begin
      Bytes.set row.(b) k '0';
      fell := true
    end in
    for b = Array.length all - 1 downto 0 do Array.iteri (falls b) peers.(b) done;
    if !fell then sweep () in
  sweep ();
  as_good, Array.map Array.to_list peers

(* A node for each state, with the starts that lead to it; then one for all that are as good as each other, compared with
   all of a start if `whole`, else with those of as much progress. *)
let graph inst o strict =
  let ids = Table.create 10000 and todo = Stdlib.Queue.create () and made = ref [] in
  let id s = match Table.find_opt ids [s] with
    | Some n -> n
    | None -> let n = Table.length ids in Table.add ids [s] n; Stdlib.Queue.add s todo; n in
  let on s = id (norm true (big 1) s) in
  let thin good x =
    let as_good (n', l') (n, l) = good n' n && answers inst strict l' l in
    let one kept e = if List.exists (fun e' -> as_good e' e) kept then kept else e :: List.filter (fun e' -> not (as_good e e')) kept in
    { x with edges = List.fold_left one [] x.edges } in
  let starts = List.map (fun s -> id (norm true (big 0) s)) (initial inst) in
  while not (Stdlib.Queue.is_empty todo) do
    let s = Stdlib.Queue.take todo in
    let edges = List.map (fun (a, l) -> on (next inst.mach (big 1) s a), l) (opts inst.mach s) in
    let x = { idle = on s; ended = s.over <> None; rated = urate o s; hold = held inst.mach s; edges; better = Tip; kinds = [] } in
    made := (thin (=) x, (s.known, s.todo, s.rest, s.ready, s.wt, s.first, s.over)) :: !made
  done;
  let all, keys = List.split (List.rev !made) in
  let all = Array.of_list all and keys = Array.of_list keys and firsts = List.sort_uniq compare starts and rows = Hashtbl.create 1000 in
  let kinds = Array.map (fun _ -> []) all and needed = Array.make 5 0 in
  let spread kind start =
    let most = Array.make 5 0 in
    let rec visit n = if not (List.mem kind kinds.(n)) then begin
      kinds.(n) <- kind :: kinds.(n);
      let take u = Hashtbl.replace rows u (); Array.iteri (fun r u -> most.(r) <- max u most.(r)) u in
      List.iter (fun (n, l) -> take (uses l); visit n) all.(n).edges;
      visit all.(n).idle
    end in
    visit start;
    Array.iteri (fun r u -> needed.(r) <- needed.(r) + u * List.length (List.filter ((=) start) starts)) most in
  List.iteri spread firsts;
  let limit, fold = binding inst.mach (List.of_seq (Hashtbl.to_seq_keys rows)) needed in
  let slim l =
    let keep r x = if limit.(r) < 0 then zero_big_int else x in
    let l' = { none with blk = keep 0 l.blk; hos = keep 1 l.hos; tok = keep 2 l.tok; ptok = keep 3 l.ptok } in
    let l' = if inst.mach.hybrid then { l' with npre = keep 4 (add_big_int l.ndec l.npre) } else { l' with ndec = l.ndec; npre = l.npre } in
    if strict then { l' with nout = sub_big_int (act_of l) (act_of l') } else l' in
  let all = Array.map (fun x -> thin (=) { x with hold = slim x.hold; edges = List.map (fun (n, l) -> n, slim l) x.edges }) all in
  let as_good, _ = simulation inst strict (fun n -> Some keys.(n)) kinds all in
  let all = Array.map (thin as_good) all and sizes = groups (List.map (fun k -> k, ()) (Array.to_list kinds)) in
  let large = Array.map (fun kinds -> List.compare_length_with (Hashtbl.find sizes kinds) 3000 > 0) kinds in
  fold, fun whole ->
  let as_good, peers = simulation inst strict (fun n -> if large.(n) || not whole then Some keys.(n) else None) kinds all in
  let same = Array.mapi (fun n l -> List.fold_left (fun m p -> if p < m && as_good p n && as_good n p then p else m) n l) peers in
  let reduced n =
    let x = all.(n) and is_better p = p <> n && same.(p) = p && as_good p n in
    n, thin as_good { x with idle = same.(x.idle); edges = List.map (fun (n, l) -> same.(n), l) x.edges;
      better = set (List.filter is_better peers.(n)); kinds = kinds.(n) } in
  let nodes = List.map reduced (List.filter (fun n -> same.(n) = n) (List.init (Array.length all) Fun.id)) in
  let names = Table.fold (fun l n names -> (of_state (List.hd l), (List.hd l, same.(n))) :: names) ids [] in
  tree List.hd nodes, tree Fun.id names, List.map (fun n -> same.(n)) starts, List.map (fun n -> same.(n)) firsts

let sums p nn = sub_big_int (sum (val0 p) nn) (snd p)

(* Deadlines by start, with the prices that show them: each from those before, as long as they fall. *)
let narrow inst scale target nodes start firsts first rows =
  let later known rows =
    let p = snd (List.hd (layers_of inst scale nodes known (big 0) zero rows)) in
    let last k n =
      let cost = mult_big_int scale (at_node nodes n).rated and before = match known with None -> far | Some l -> List.nth l k in
      if sign_big_int cost = 0 then before
      else max_big_int zero_big_int (min_big_int before (pred_big_int (ceil_div (sub_big_int (add_big_int target (val0 p n)) (sums p start)) cost))) in
    rows, List.mapi last firsts in
  let rec go (rows', l) found =
    let next = later (Some l) rows in
    if found <> [] && snd next = l then List.rev found else go next (next :: found) in
  let alone = later first (List.map (fun _ -> zero) rows) in
  go alone [alone]

(* What joint states are worth at the least, by each pair of prices and values. *)
let worths size ps =
  let table (_, (values, supply)) =
    let worth = Array.make size 0 in
    let rec fill = function Tip -> () | Fork (low, n, v, high) -> worth.(n) <- int v; fill low; fill high in
    fill values;
    fun nn -> List.fold_left (fun sum n -> sum + worth.(n)) (- int (min_big_int far supply)) nn in
  List.map table ps

(* The next layer: joint states from which the bound could still be missed. In place of one, of which another node is
   better than a node, stands what stands for that one, if it costs no more. *)
let choose target nodes most count =
  let rec last = function Tip -> 0 | Fork (_, n, _, Tip) -> n + 1 | Fork (_, _, _, high) -> last high in
  let target = int target and size = last nodes in
  fun vs next ->
  let seen = Joint.create 1000 and better = Joint.create 1000 and now = worths size (now_of vs) in
  let add b nn =
    let nn = arrange nn in
    match Joint.find_opt seen nn with
    | Some (b', _) when b' <= b -> ()
    | _ -> Joint.replace seen nn (b, b >= target || List.exists (fun worth -> b + worth nn >= target) now) in
  List.iter (List.iter (fun (b, l) -> List.iter (add (int b)) l)) next;
  let all = List.filter_map (fun (nn, (b, cut)) -> if cut then None else Some (nn, b)) (List.of_seq (Joint.to_seq seen)) in
  let present = Array.make size false and better_of = Array.make size [] in
  List.iter (fun (nn, _) -> List.iter (fun n -> present.(n) <- true) nn) all;
  Array.iteri (fun n here -> if here then
    better_of.(n) <- List.filter (fun n -> present.(n)) (items (at_node nodes n).better [])) present;
  let rec dominating b before = function
    | [] -> None
    | n :: after ->
      let rest = List.rev_append before after in
      let one n' =
        let nn = place_in n' rest in
        match Joint.find_opt seen nn with Some (b', false) when b' <= b -> Some (List.length before, n', nn) | _ -> None in
      match List.find_map one better_of.(n) with None -> dominating b (n :: before) after | found -> found in
  let stands_for nn = match Joint.find_opt better nn with None -> nn | Some found -> Lazy.force found in
  let rec place (n : int) = function n' :: nn when n' < n -> 1 + place n nn | _ -> 0 in
  let rec without k = function [] -> [] | n :: nn -> if k = 0 then nn else n :: without (k - 1) nn in
  let rec insert n k nn = if k = 0 then n :: nn else List.hd nn :: insert n (k - 1) (List.tl nn) in
  let moved k n' nn =  (* what stands for the better state, n' of which is at place k of the other *)
    let k' = place n' nn and found = stands_for nn in
    insert (List.nth found k') k (without k' found) in
  List.iter (fun (nn, b) -> Option.iter (fun (k, n', nn') -> Joint.add better nn (lazy (moved k n' nn'))) (dominating b [] nn)) all;
  let kept = List.filter (fun (nn, _) -> not (Joint.mem better nn)) all in
  let ended nn = List.for_all (fun n -> (at_node nodes n).ended) nn in
  List.iter (fun (nn, b) -> if ended nn then raise (Below b)) kept;
  count := !count + List.length kept;
  if !count > most then raise (Enough most);
  let soon = worths size (now_of (later vs)) and choice = Joint.create 1000 in
  let uses = List.map (fun _ -> Hashtbl.create 1000) soon in
  let guide (nn, _) =
    let best = - snd (List.fold_left max (min_int, 0) (List.mapi (fun k worth -> worth nn, - k) soon)) in
    Joint.add choice nn best;
    List.iter (fun n -> Hashtbl.replace (List.nth uses best) n ()) nn in
  List.iter guide kept;
  { entries = tree Fun.id (List.map (fun (nn, b) -> of_nodes nn, (nn, big b)) kept);
    used = List.map (fun t -> set (List.of_seq (Hashtbl.to_seq_keys t))) uses;
    steer = (fun nn -> Option.map Lazy.force (Joint.find_opt better nn));
    guide = Joint.find choice }

(* For an objective that is a sum, or makespan; or for the largest flow time, by deadlines. *)
let by_slots inst o bound scale strict prices most =
  let s = big (if o = None then 1 else scale) and sum = Option.value ~default:Flow o in
  let target = match o with Some o -> target_of inst o bound s | None -> all_late inst bound in
  let fold, nodes_of = graph inst sum strict in
  let rec from k l = if k > 0 && l <> [] then from (k - 1) (List.tl l) else l in
  let pad k rows = rows @ List.init (max 0 (k - List.length rows)) (fun _ -> zero) in
  let rec latest = function  (* the first vector, and a dozen of the latest *)
    | [] -> []
    | (since, rows) :: l -> let until = match List.nth_opt l 11 with Some (k, _) -> k - since | None -> max_int in
      { from = since; ticks = until; costs = List.map fold (from since rows) } :: latest l in
  let steps (r : request) = List.fold_left (fun n (c, d) -> n + int c.duration + int d) (int r.prompt + int r.decode) r.more in
  let longest = List.fold_left (fun n r -> max n (steps r)) 0 inst.requests in
  let prices = List.mapi (fun k p -> if k > 0 then p else { p with ticks = max_int; costs = pad (longest + List.length p.costs) p.costs })
    (latest prices) in
  let rec attempt whole =
    let nodes, names, start, firsts = nodes_of whole in
    let due n = List.fold_left2 (fun d m (s : state) -> if m = n then max_big_int d (pred_big_int (add_big_int s.arrived bound)) else d)
      zero_big_int start (initial inst) in
    let given = List.map due firsts in
    let first = if o = None then Some given else None in
    let proved = ge_big_int (sums (snd (List.hd (steps_of inst s nodes first (List.hd prices)))) start) target in
    if not (proved || whole) then attempt true else begin
      let dd = if sum = Makespan || proved then [] else narrow inst s target nodes start firsts first (List.hd prices).costs in
      let ends = match latest_of first dd with Some l -> List.filter (gt_big_int far) l | None -> [] in
      let until = List.fold_left (fun n d -> max n (int d)) 0 ends in
      let prices = List.map (fun p -> { p with costs = pad (until + 1 - p.from) p.costs }) prices in
      let count = ref 0 in
      let choose = choose target nodes most count in
      let proved = match o with
        | Some o -> check_slots inst o bound s strict nodes names of_state of_nodes prices dd max_int choose
        | None -> check_longest inst bound strict nodes names of_state of_nodes given prices dd max_int choose in
      proved, !count
    end in
  attempt false

let prove inst o bound scale strict prices most =
  let is_steady = steady inst (Option.value ~default:Flow o) in
  try
    let proved, count = match o with
      | Some o when prices = [] && not is_steady -> states inst o bound most
      | None when not is_steady -> false, 0
      | _ -> by_slots inst o bound scale strict (if prices = [] then [0, []] else prices) (5 * most) in  (* a state takes less *)
    if proved then Printf.sprintf "proved %s by %d states" (string_of_big_int bound) count
    else "not proved: the checker refuses what was found"
  with
  | Below b -> "not proved: a schedule ends at " ^ (match o with
    | Some o -> string_of_int ((b + scale - 1) / scale - int (offset inst o))
    | None -> string_of_big_int (pred_big_int bound) ^ " or before")
  | Enough most -> Printf.sprintf "not proved: more than %d states" most

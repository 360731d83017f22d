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

(* What a request costs at the least from each slot on, by recursion: the table, and the function that it is of. *)
let values inst o scale rows depth options =
  let m = inst.mach and known = Table.create 10000 and table = ref [] and rows = Array.of_list rows in
  let free = { pblk = big 0; phos = big 0; ptk = big 0; ppt = big 0; prq = big 0 } in
  let rate s = int (rate o [s]) in
  let rec value k s =
    if s.over <> None || k >= depth then 0
    else match Table.find_opt known (k, [s]) with
      | Some v -> v
      | None ->
        let prices = if k < Array.length rows then rows.(k) else free in
        let on s load = scale * rate s + int (pay prices load) in
        let idle = on s (held m s) + value (k + 1) (norm true (big 1) s) in
        let tried = List.map (fun (a, l) -> on s l + value (k + 1) (norm true (big 1) (next m (big 1) s a))) (options s) in
        let v = max 0 (List.fold_left min idle tried) in
        Table.add known (k, [s]) v;
        if v > 0 then table := entry k [s] v :: !table;
        v in
  table, value

(* The steps of the longest request: as many slots after the last price have entries. *)
let longest inst =
  let steps (r : request) =
    List.fold_left (fun n (c, d) -> n + int c.duration + int d) (int r.prompt + int r.decode) r.more in
  List.fold_left (fun n r -> max n (steps r)) 0 inst.requests

(* States with the least cost so far, all from which the bound could still be missed. *)
let states inst o scale target most potentials options =
  let m = inst.mach and timed = o <> Busy and clocked = potentials <> [] in
  let best = Table.create 100000 and queue = ref Queue.empty in
  let tick k d = if clocked then k + d else k in
  let sorted n ss = sort leb (List.map (norm timed (big n)) ss) in
  let worth k ss (value, left) = List.fold_left (fun x s -> x + value k s) 0 ss - left k in
  let add k ss b =
    let enough b = b >= target || List.exists (fun p -> b + worth k ss p >= target) potentials in
    let known = Table.find_opt best (k, ss) in
    if (known = None || Option.get known > b) && not (enough b) then begin
      if Table.length best >= most then raise Enough;
      Table.replace best (k, ss) b;
      let into = function None -> Some [k, ss, b] | Some l -> Some ((k, ss, b) :: l) in
      queue := Queue.update (if clocked then k else b) into !queue
    end in
  let expand (k, ss, b) =
    if Table.find best (k, ss) = b then begin
      if List.for_all (fun s -> s.over <> None) ss then raise (Below b);
      if timed then add (tick k 1) (sorted 1 ss) (b + scale * int (rate o ss));
      let batch load acts =
        if jointb m load then begin
          let d = lasts inst.cost load in
          add (tick k (int d)) (sorted (int d) (nexts m d ss (List.rev acts))) (b + scale * int (fee o ss d))
        end;
        true in
      let after s (a, _) = List.map (fun (value, _) -> value (k + 1) (norm true (big 1) (next m (big 1) s a))) potentials in
      let choices s =
        let tried = List.map (fun x -> x, after s x) (options s) in
        let least = List.fold_left (fun low (_, c) -> List.map2 min low c) (List.map (fun _ -> max_int) potentials) tried in
        least, List.map (fun (x, c) -> x, List.map big (List.map2 (-) c least)) tried in
      let chosen = List.map choices ss in
      let spent = scale * int (fee o ss (big 1)) in
      let room = List.map (fun (_, left) -> target + left (k + 1) - b - spent) potentials in
      if List.for_all (fun (_, tried) -> tried <> []) chosen then
        let slack = List.fold_left (fun room (least, _) -> List.map2 (-) room least) room chosen in
        ignore (every m batch (List.map snd chosen) none [] (List.map big slack))
    end in
  add 0 (origin inst o leb) 0;
  while not (Queue.is_empty !queue) do
    let first, l = Queue.min_binding !queue in
    queue := Queue.remove first !queue;
    List.iter expand l
  done;
  Table.fold (fun (k, ss) b l -> entry k ss b :: l) best []

let prove inst o bound scale prices most =
  let start = int (offset inst o) and target = target_of inst o bound (big scale) in
  let cache = Table.create 1000 in
  let options s = match Table.find_opt cache (0, [s]) with
    | Some x -> x
    | None -> let x = opts inst.mach s in Table.add cache (0, [s]) x; x in
  let depth = List.fold_left (fun n rows -> max n (List.length rows)) 0 prices + longest inst in
  let prepare rows =
    let table, value = values inst o scale rows depth options in
    let lefts = Array.of_list (List.map int (lefts inst.mach rows)) in
    (rows, table), (value, fun k -> if k < Array.length lefts then lefts.(k) else 0) in
  let tables, potentials = List.split (List.map prepare prices) in
  try
    let kept = states inst o scale (int target) most potentials options in
    let vectors = List.map (fun (rows, table) -> { rows; table = !table }) tables in
    if check inst o bound (big scale) leb hash vectors kept
    then Printf.sprintf "proved %s by %d states" (Big_int_Z.string_of_big_int bound) (List.length kept)
    else "not proved: the checker refuses what was found"
  with
  | Below b -> Printf.sprintf "not proved: a schedule ends at %d" ((b + scale - 1) / scale - start)
  | Enough -> Printf.sprintf "not proved: more than %d states" most

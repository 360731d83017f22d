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
let values inst o scale rows options =
  let m = inst.mach and known = Table.create 10000 and table = ref [] and rows = Array.of_list rows in
  let rate s = int (rate o [s]) in
  let rec value k s =
    if s.over <> None || k >= Array.length rows then 0
    else match Table.find_opt known (k, [s]) with
      | Some v -> v
      | None ->
        let on s load = scale * rate s + int (pay rows.(k) load) in
        let idle = on s (held m s) + value (k + 1) (norm true (big 1) s) in
        let tried = List.map (fun (a, l) -> on s l + value (k + 1) (norm true (big 1) (next m (big 1) s a))) (options s) in
        let v = max 0 (List.fold_left min idle tried) in
        Table.add known (k, [s]) v;
        if v > 0 then table := entry k [s] v :: !table;
        v in
  table, value

(* States with the least cost so far, all from which the bound could still be missed. *)
let states inst o scale rows target most worth options =
  let m = inst.mach and timed = o <> Busy and best = Table.create 100000 and queue = ref Queue.empty in
  let tick k d = if rows = [] then k else k + d in
  let sorted n ss = sort leb (List.map (norm timed (big n)) ss) in
  let add k ss b =
    let known = Table.find_opt best (k, ss) in
    if b + worth k ss < target && (known = None || Option.get known > b) then begin
      if Table.length best >= most then raise Enough;
      Table.replace best (k, ss) b;
      let into = function None -> Some [k, ss, b] | Some l -> Some ((k, ss, b) :: l) in
      queue := Queue.update (if rows = [] then b else k) into !queue
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
      ignore (every m batch (List.map options ss) none [])
    end in
  add 0 (origin inst o leb) 0;
  while not (Queue.is_empty !queue) do
    let first, l = Queue.min_binding !queue in
    queue := Queue.remove first !queue;
    List.iter expand l
  done;
  Table.fold (fun (k, ss) b l -> entry k ss b :: l) best []

let prove inst o bound scale rows most =
  let start = int (offset inst o) in
  let target = scale * (int bound + start - 1) + 1 in
  let cache = Table.create 1000 in
  let options s = match Table.find_opt cache (0, [s]) with
    | Some x -> x
    | None -> let x = opts inst.mach s in Table.add cache (0, [s]) x; x in
  let table, value = values inst o scale rows options in
  let lefts = Array.init (List.length rows) (fun k -> int (left inst rows (big k))) in
  let worth k ss =
    if k >= Array.length lefts then 0 else List.fold_left (fun x s -> x + value k s) 0 ss - lefts.(k) in
  try
    let kept = states inst o scale rows target most worth options in
    if check inst o bound (big scale) rows hash leb !table kept
    then Printf.sprintf "proved %s by %d states" (Big_int_Z.string_of_big_int bound) (List.length kept)
    else "not proved: the checker refuses what was found"
  with
  | Below b -> Printf.sprintf "not proved: a schedule ends at %d" ((b + scale - 1) / scale - start)
  | Enough -> Printf.sprintf "not proved: more than %d states" most

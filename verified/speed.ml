(* Plans of requests that prove a bound by prices of work: not believed. Floats propose values, cut by cut: the time of
   the first token and the end that cost least get the best values for them, until nothing gains. *)
module Exact = Z
open Kvproof
module Z = Exact

let z = Z.of_int and float = Z.to_float
let fine = Z.shift_left Z.one 40
let parts = 4  (* bands of what tokens have more work than the base *)

(* What a plan takes is not known before; so many steps are a minute. *)
exception Large
let most = 4_000_000_000 and steps = ref 0
let step n = steps := !steps + n; if !steps > most then raise Large

type line = { e : float; gap : float }  (* of the cost: 1024ths not paid by speed, what is not shared *)

(* The best ratio of a tangent, and the toll and the speed there. *)
let ratio line price fee value least =
  let own = price *. (1024. -. line.e) and flat = price *. line.e +. fee in
  let most = if least > line.gap then least /. (least -. line.gap) else 1e6 in
  if value <= own +. flat then 1. else if own <= 0. then min most 1e6 else min most (sqrt ((value -. flat) /. own))
let toll line price fee value least =
  let g = ratio line price fee value least and own = price *. (1024. -. line.e) in
  let tangent = if line.gap > 0. then own *. (g -. 1.) ** 2. /. line.gap else 0. in
  tangent +. max 0. (value -. own *. g *. g -. price *. line.e -. fee) /. least
let speed line price fee value least =
  if value <= price *. 1024. +. fee then 0.
  else if line.gap > 0. && price > 0. then min (1. /. least) ((1. -. 1. /. ratio line price fee value least) /. line.gap)
  else 1. /. least
let root e gap price fee value least =
  let line = { e; gap } in
  Z.of_float (ceil (float fine *. ratio line (float price) (float fee) (float value) (float least)))

let rec bisect n low high above = if n = 0 then high else
  let middle = (low +. high) /. 2. in
  if above middle then bisect (n - 1) low middle above else bisect (n - 1) middle high above

let plan ~line ~origin ~length ~least ~prices ~weight ~pieces ~lone ~dues ~level ~cells =
  let e, gap, price_array, dues_array = line.e, line.gap, Array.map float prices, Array.map float dues in
  let nth a s = if s < Array.length a then a.(s) else 0. in
  let min_from = List.fold_left (fun b p -> Z.min b p.from0) in
  let split, first, others = match pieces with
    | p :: (_ :: _ as qs) -> true, p, qs
    | _ -> false, { from0 = min_from lone pieces; amount = Z.zero; behind = Z.zero }, pieces in
  let begins = min_from lone others in
  let works = List.map (fun p -> p.amount) others in
  let low, high = List.fold_left Z.min (List.hd works) works, List.fold_left Z.max Z.one works in
  let base = Z.max Z.one (Z.add low (Z.div (Z.mul (Z.sub high low) (z level)) (z 1024))) in
  let more = Z.div (Z.sub high base) (z parts) in
  let rungs = base :: if Z.sign more > 0 then List.init parts (fun k -> if k < parts - 1 then more else Z.sub (Z.sub high base) (Z.mul more (z (parts - 1)))) else [] in
  let bands = Array.of_list (List.rev (snd (List.fold_left (fun (low, bands) h ->
    let amount = List.fold_left (fun sum w -> Z.add sum (Z.max Z.zero (Z.min (Z.sub w low) h))) Z.zero works in
    Z.add low h, (float h, float amount, max (float least) (gap +. float h), low = Z.zero) :: bands) (Z.zero, []) rungs))) in
  let start = slot_of origin length first.from0 in
  let opens s = Z.add origin (Z.mul length (z s)) in
  let wide = float length in
  let at s = float origin +. wide *. float_of_int s in
  let weight = float weight in
  let fee own s h = if own then nth dues_array s /. h else 0. in
  (* the value at which a band is done in a window *)
  let value_for (h, amount, least, own) a c =
    let done_by value =
      let rec add s sum = if at s >= c then sum else
        let () = step 8 in
        let ticks = min c (at (s + 1)) -. max a (at s) in
        add (s + 1) (if ticks > 0. then sum +. ticks *. speed line (nth price_array s) (fee own s h) value least else sum) in
      add (int_of_float ((max a (at start) -. float origin) /. wide)) 0. *. h >= amount in
    let most = ref 1. in
    while not (done_by !most) && !most < 1e200 do most := !most *. 16. done;
    if !most >= 1e200 then 1e100 else bisect 50 0. !most done_by in
  let tolls own bands values s = step 8; snd (Array.fold_left (fun (k, sum) (h, _, least, _) ->
    k + 1, sum +. h *. toll line (nth price_array s) (if k = 0 && own then nth dues_array s /. h else 0.) values.(k) least) (0, 0.) bands) in
  let head_band = [| float first.amount, float first.amount, max (float least) (gap +. float first.amount), true |] in
  let values_for a n =
    let values t = Array.map (fun band -> value_for band a (at n +. t *. wide)) bands in
    let less values = tolls true bands values n <= weight in
    (* between the values of two times, where the toll is what waiting costs *)
    let rec between k low high = if k > 0 then
        let middle = (low +. high) /. 2. in
        if less (values middle) then between (k - 1) low middle else between (k - 1) middle high
      else
        let slow = values high and fast = values low in
        let mix part = Array.map2 (fun s f -> s +. part *. (f -. s)) slow fast in
        mix (bisect 40 0. 1. (fun part -> not (less (mix part)))) in
    if less (values 0.) then values 0. else if not (less (values 1.)) then values 1. else between 8 0. 1. in
  let gained bands values = snd (Array.fold_left (fun (k, sum) (_, amount, _, _) -> k + 1, sum +. amount *. values.(k)) (0, 0.) bands) in
  let area values own bands a c =
    let rec add s sum = if at s >= c then sum else
      add (s + 1) (sum +. max 0. (min c (at (s + 1)) -. max a (at s)) *. tolls own bands values s) in
    add start 0. in
  (* some time of the first token and end: no less than the least *)
  let earliest = slot_of origin length lone in
  let guess n part =
    let c = at (n + 1) and r = float first.from0 in
    let f = if split then r +. part *. (c -. r -. float first.behind) else r in
    let a = max f (float begins) in
    if f <= r && split || a >= c then infinity else
    let values = Array.map (fun band -> value_for band a c) bands in
    let head = if not split then 0. else
      let v = [| value_for head_band.(0) r f |] in if v.(0) >= 1e100 then infinity else gained head_band v -. area v true head_band r f in
    if values.(0) >= 1e100 then infinity else weight *. (c -. r) +. head +. gained bands values -. area values true bands a c in
  let rec guesses n step best = if n > start + 20000 || weight *. (at n -. float first.from0) >= best then best else
    guesses (n + step) (if step > 16 then step * 3 / 2 else step + 1) (List.fold_left (fun best part -> min best (guess n part)) best [0.3; 0.6; 0.9]) in
  let best = guesses earliest 1 infinity in
  let slots = max 1 (1 + int_of_float (best /. weight /. wide)) + 1 in
  let stop = opens (start + slots) in
  let cut = if split then
      let ends = List.concat (List.init slots (fun s -> List.init cells (fun k -> Z.add (opens (start + s)) (Z.div (Z.mul length (z (k + 1))) (z cells))))) in
      let rec needed = function e :: es -> if Z.lt e begins then needed es else
          e :: (if Z.geq (Z.add e first.behind) stop then [] else needed es) | [] -> [] in
      List.filter (fun x -> Z.geq x first.from0 && Z.leq x stop) (needed ends)
    else [] in
  (* (others from, head by, end from) *)
  let windows = if not split then [ (float begins, None, lone) ] else
    let rec all a from = function [] -> [] | x :: es ->
      (float a, Some (float x), from) :: all (Z.max x begins) (Z.max lone (Z.add x first.behind)) es in
    all begins lone cut in
  let windows = List.filter (fun (a, _, _) -> a < float stop) windows in
  let rows = ref [] and heads = ref [] in
  let add_row values = rows := (values, gained bands values, Array.init slots (fun s -> tolls true bands values (start + s))) :: !rows in
  let head_prefix v = let t = Array.init slots (fun s -> tolls true head_band v (start + s)) in
    let sums = Array.make (slots + 1) 0. in
    let r = float first.from0 in
    Array.iteri (fun s x -> sums.(s + 1) <- sums.(s) +. x *. (at (start + s + 1) -. max r (at (start + s)))) t;
    t, sums in
  let add_head v = heads := (v, gained head_band v, head_prefix v) :: !heads in
  let free = ([||], 0., Array.make slots 0.), () in
  let head_at heads x = List.fold_left (fun best (_, gain, (t, sums)) ->
    let s = min (slots - 1) (int_of_float ((x -. at start) /. wide)) in
    max best (gain -. sums.(s) -. t.(s) *. (x -. max (float first.from0) (at (start + s))))) 0. heads in
  (* of all ends from a window: what the best of these rows says, and which is best *)
  let here = Array.make slots 0. and by_row = Array.make slots (fst free) in
  let each_end rows (a, from) last see =
    let s = min (slots - 1) (int_of_float ((a -. at start) /. wide)) and from = slot_of origin length from - start in
    Array.fill here 0 slots neg_infinity;
    let len0 = at (start + s + 1) -. a in
    List.iter (fun ((_, gain, (tolls : float array)) as row) ->
      let sum = ref (weight *. a +. gain) and len = ref len0 in
      step (last - s);
      for n = s to last - 1 do
        let next = !sum +. !len *. (weight -. tolls.(n)) in
        let low = if next < !sum then next else !sum in
        if low > here.(n) then (here.(n) <- low; by_row.(n) <- row);
        sum := next; len := wide
      done) (fst free :: rows);
    for n = max s from to last - 1 do see n here.(n) by_row.(n) done in
  let least_end (a, by, from) =
    let head = match by with None -> 0. | Some x -> head_at !heads x in
    let least = ref (weight *. float stop, slots) in
    each_end !rows (a, from) slots (fun n here _ -> if here < fst !least then least := here, n);
    fst !least +. head, snd !least in
  let worst windows = List.fold_left (fun (best, window) each ->
    let found = least_end each in if fst found < fst best then found, each else best, window) ((infinity, 0), List.hd windows) windows in
  let shift = weight *. float first.from0 in
  let rec rounds k before =
    let (value, n), (a, by, _) = worst windows in
    if k > 0 && (k mod 25 <> 0 || value -. before > 1e-5 *. (value -. shift)) then begin
      if n < slots then add_row (values_for a (start + n));
      (match by with Some x -> add_head [| value_for head_band.(0) (float first.from0) x |] | None -> ());
      rounds (k - 1) (if k mod 25 = 0 then value else before)
    end in
  let whole x = if x > 0. then Z.of_float x else Z.zero in
  let bare = { split = true; rungs; firsts = []; tries = []; cells = []; slots = 1; dues = Array.to_list dues } in
  if windows = [] then bare else begin
    let spread = max 1 ((slots - earliest + start) / 60) in
    let rec sow n = if n < start + slots then (add_row (values_for (float begins) n); sow (n + spread)) in
    sow earliest;
    rounds 200 shift;
    let value = fst (fst (worst windows)) in
    let enough = value -. 2e-5 *. (value -. shift) in
    if enough <= weight *. float lone then bare else  (* alone it takes as much *)
    let last = min slots (1 + int_of_float (ceil ((enough /. weight -. at start) /. wide))) in
    (* as few cells, then as few values, as still prove it *)
    let rec merge (a, from) es = match es with [] -> [] | x :: rest ->
      let rec widest x = function
        | y :: more when fst (least_end (a, Some (float y), from)) >= enough -> widest y more
        | rest -> x, rest in
      let x, rest = widest x rest in
      ((a, from), Some x) :: merge (float (Z.max x begins), Z.max lone (Z.add x first.behind)) rest in
    let merged = if split then merge (float begins, lone) (List.filter (fun x -> Z.leq x (opens (start + last))) cut) else [ (float begins, lone), None ] in
    let kept = ref [] and kept_heads = ref [] in
    List.iter (fun (window, by) ->
      let head = match by with None -> 0. | Some x ->
        let x = float x in
        if head_at !kept_heads x < head_at !heads x then
          kept_heads := List.find (fun h -> head_at [h] x = head_at !heads x) !heads :: !kept_heads;
        head_at !heads x in
      let missing = ref [] in
      each_end !kept window last (fun n here _ -> if here +. head < enough then missing := n :: !missing);
      if !missing <> [] then
        each_end !rows window last (fun n _ row ->
          if List.mem n !missing && row != fst free && not (List.memq row !kept) then kept := row :: !kept)) merged;
    { bare with split; firsts = List.map (fun (v, _, _) -> whole v.(0)) !kept_heads; slots = last;
      tries = List.map (fun (v, _, _) -> Array.to_list (Array.map whole v)) !kept; cells = List.filter_map snd merged }
  end

let prove inst o place r m e slot scale prices rows group level cells bound =
  let f = List.nth inst.cost place in
  let m = z m and e = z e in
  let q = share inst.mach m f r and den = unit_ticks inst.mach f r and gap = gap_of inst.mach m f r in
  let more = Z.shift_left Z.one (Z.numbits gap + 40) in
  let prices = Array.map (Z.mul more) (Array.of_list prices) in
  let line = { e = float e; gap = float gap } in
  let origin = Z.mul den (earliest inst) and length = Z.mul den slot in
  let least = Z.mul den (step0 inst (shortest_of inst)) in
  let unit = Z.mul (Z.mul (z 1024) more) scale in
  let states = initial inst in
  let rows = Array.map Array.of_list (Array.of_list rows) in
  let weights = List.map (fun g -> if g < Array.length rows then rows.(g) else [||]) group in
  let firsts = List.map (fun s -> slot_of (earliest inst) slot s.arrived) states in
  let sums = Array.make (Array.length prices) Z.zero in
  List.iter2 (fun row s -> Array.iteri (fun k w -> if s + k < Array.length sums then sums.(s + k) <- Z.add sums.(s + k) w) row) weights firsts;
  let none = { split = true; rungs = []; firsts = []; tries = []; cells = []; slots = 1; dues = [] } in  (* what it takes alone *)
  let known = Hashtbl.create 16 in
  let plan_of s (row, first) =
    let pieces = pieces inst true q den (own_spans inst) s and lone = Z.mul den (lone inst s) in
    let weight = Z.mul unit (weigh o s) in
    let key = s.arrived, weight, row, pieces in
    match Hashtbl.find_opt known key with Some plan -> plan | None ->
    let dues = Array.mapi (fun k p -> let j = k - first in
      if j >= 0 && j < Array.length row && Z.sign row.(j) > 0 then Z.div (Z.mul (Z.mul (Z.mul e gap) p) row.(j)) sums.(k) else Z.zero) prices in
    let last = ref (Array.length dues) in
    while !last > 0 && Z.sign dues.(!last - 1) = 0 do decr last done;
    let dues = Array.sub dues 0 !last in
    let made = try if Array.for_all (fun p -> Z.sign p = 0) prices then none else plan ~line ~origin ~length ~least ~prices ~weight ~pieces ~lone ~dues ~level ~cells
      with Invalid_argument _ | Failure _ | Not_found | Z.Overflow | Division_by_zero -> none in
    Hashtbl.add known key made; made in
  steps := 0;
  let plans = List.map2 plan_of states (List.combine weights firsts) in
  List.iter (fun p -> step (25 * p.slots * (1 + List.length p.tries) * (1 + List.length p.cells))) plans;  (* to check it *)
  let root = root line.e line.gap in
  let prices = Array.to_list prices in
  speed_proves inst o place r m e slot fine unit root prices plans bound

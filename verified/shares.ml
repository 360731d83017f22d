(* What proves a bound by shares: not believed. *)
open Kvproof
open Big_int_Z

(* Work from h on, with k or more to come, asks for the most batches: some places for h, all for k. *)
let window inst r =
  let u = int_of_big_int (supply_of inst.mach r) and best = ref (0, 0, 0) in
  let of_request s = List.map (fun p -> int_of_big_int p.from0 / u, int_of_big_int p.behind / u, int_of_big_int p.amount)
    (pieces inst false (unit_of r) (big_int_of_int u) [once, unit_big_int] s) in
  let all = List.sort (fun (_, k, _) (_, k', _) -> compare k' k) (List.concat_map of_request (initial inst)) in
  let heads = Array.of_list (List.sort_uniq compare (List.map (fun (h, _, _) -> h) all)) in
  for place = 0 to 63 do
    let h = heads.(place * Array.length heads / 64) in
    ignore (List.fold_left (fun sum (from, k, amount) ->
      if from < h then sum else begin
        best := max !best (h + k + (sum + amount + u - 1) / u, h, k);
        sum + amount
      end) 0 all)
  done;
  let _, h, k = !best in
  big_int_of_int h, big_int_of_int k

let prove inst o place r bound =
  let zero = zero_big_int and q = power_int_positive_int 2 200 in
  if o = Busy || o = Makespan then let h, k = window inst r in shares_ok inst o place r h k q [] bound
  else
    let rates = List.map (fun s -> fst (rated_of inst o (List.nth inst.cost place) r q s)) (initial inst) in
    shares_ok inst o place r zero zero q (List.sort_uniq (fun a b -> compare_big_int b a) rates) bound

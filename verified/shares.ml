(* What proves a bound by shares: not believed. *)
open Kvproof
open Big_int_Z

(* Work from h on, with k or more to come, asks for the most batches: some places for h, all for k. *)
let window inst r =
  let u = supply_of inst.mach r in
  let in_batches p = int_of_big_int (div_big_int p.from0 u), int_of_big_int (div_big_int p.behind u), p.amount in
  let of_request s = List.map in_batches (pieces inst false (unit_of r) u [once, unit_big_int] s) in
  let all = List.sort (fun (_, k, _) (_, k', _) -> compare k' k) (List.concat_map of_request (initial inst)) in
  let heads = Array.of_list (List.sort_uniq compare (List.map (fun (h, _, _) -> h) all)) in
  let most place =
    let h = heads.(place * Array.length heads / 64) in
    let add (sum, best) (from, k, amount) = if from < h then sum, best else
      let sum = add_big_int sum amount in
      sum, max best (h + k + int_of_big_int (ceil_div sum u), h, k) in
    snd (List.fold_left add (zero_big_int, (0, 0, 0)) all) in
  let _, h, k = List.fold_left max (0, 0, 0) (List.init 64 most) in
  big_int_of_int h, big_int_of_int k

let prove inst o place r bound =
  let none = zero_big_int and q = power_int_positive_int 2 200 in
  if o = Busy || o = Makespan then let h, k = window inst r in shares_ok inst o place r h k q [] bound
  else
    let rates = List.map (fun s -> fst (rated_of inst o (List.nth inst.cost place) r q s)) (initial inst) in
    shares_ok inst o place r none none q (List.sort_uniq (fun a b -> compare_big_int b a) rates) bound

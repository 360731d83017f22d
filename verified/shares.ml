(* What proves a bound by shares: not believed. *)
open Kvproof
open Big_int_Z

(* Work from `h` on and with `k` still to come asks for the most batches: some places for h, all for k. *)
let window inst r =
  let u = int_of_big_int (supply_of inst.mach r) in
  let int x = int_of_big_int x in
  let all = List.concat_map (fun s ->
    List.map (fun p -> int p.from / u, int p.behind / u, int p.amount)
      (pieces inst false (unit_of r) (big_int_of_int u) [once, unit_big_int] s)) (initial inst) in
  let all = Array.of_list all in
  Array.stable_sort (fun (_, k, _) (_, k', _) -> compare k' k) all;
  let heads = Array.of_list (List.sort_uniq compare (List.map (fun (h, _, _) -> h) (Array.to_list all))) in
  let best = ref (0, 0, 0) in
  for place = 0 to 63 do
    let h = heads.(place * Array.length heads / 64) and sum = ref 0 in
    Array.iter (fun (from, k, amount) ->
      if from >= h then begin
        sum := !sum + amount;
        let n = h + k + (!sum + u - 1) / u and (most, _, _) = !best in
        if n > most then best := (n, h, k)
      end) all
  done;
  let _, h, k = !best in
  big_int_of_int h, big_int_of_int k

let prove inst o place r bound =
  let f = List.nth inst.cost place in
  match o with
  | Busy -> let h, k = window inst r in busy_ok inst f r h k bound
  | _ -> false

(* The program: kvproof.ml and kvproof.mli, in which numbers are zarith's and lists are counted by OCaml's integers. *)
Require Import Spec Referee Model Check Prices Slots Early Closed Bound Alone Worth OneMachine Divide Tokens Levels Shares Tolls Apart Tangent Ends Plans Speed.
Require Extraction ExtrOcamlBasic ExtrOcamlZBigInt ExtrOcamlNatInt.
Require Import ZArith.
Extract Constant Z.to_nat =>
  "(fun z -> if Big_int_Z.sign_big_int z < 0 then 0 else Big_int_Z.int_of_big_int z)".
Extract Constant Z.of_nat => "Big_int_Z.big_int_of_int".
Extract Constant Z.leb => "Big_int_Z.le_big_int".
Extract Constant Z.ltb => "Big_int_Z.lt_big_int".
Extract Inlined Constant Nat.leb => "((<=) : int -> int -> bool)".
Extraction "kvproof.ml"
  referee check check_slots check_longest simple alone shares_ok  (* what is proved *)
  sort norm initial rate fee lasts jointb nexts opts origin held urate none target_of offset every steady waits active
  next answers simulates subset now_of later layers_of all_late arrange place_in
  pieces once unit_of supply_of rated_of
  speed_proves speed_bound plan_value share unit_ticks gap_of own_spans lone step shortest_of earliest weigh slot_of.

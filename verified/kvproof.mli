
val negb : bool -> bool

val option_map : ('a1 -> 'a2) -> 'a1 option -> 'a2 option

val fst : ('a1 * 'a2) -> 'a1

val snd : ('a1 * 'a2) -> 'a2

val length : 'a1 list -> int

val app : 'a1 list -> 'a1 list -> 'a1 list

type comparison =
| Eq
| Lt
| Gt

val pred : int -> int

val add : int -> int -> int

val sub : int -> int -> int

val eqb : bool -> bool -> bool

module Nat :
 sig
  val ltb : int -> int -> bool
 end

module Pos :
 sig
  val succ : Big_int_Z.big_int -> Big_int_Z.big_int

  val add : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val add_carry : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val pred_double : Big_int_Z.big_int -> Big_int_Z.big_int

  val mul : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val iter : ('a1 -> 'a1) -> 'a1 -> Big_int_Z.big_int -> 'a1

  val compare_cont :
    comparison -> Big_int_Z.big_int -> Big_int_Z.big_int -> comparison

  val compare : Big_int_Z.big_int -> Big_int_Z.big_int -> comparison

  val eqb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool

  val iter_op : ('a1 -> 'a1 -> 'a1) -> Big_int_Z.big_int -> 'a1 -> 'a1

  val to_nat : Big_int_Z.big_int -> int

  val of_succ_nat : int -> Big_int_Z.big_int

  val eq_dec : Big_int_Z.big_int -> Big_int_Z.big_int -> bool
 end

module Z :
 sig
  val double : Big_int_Z.big_int -> Big_int_Z.big_int

  val succ_double : Big_int_Z.big_int -> Big_int_Z.big_int

  val pred_double : Big_int_Z.big_int -> Big_int_Z.big_int

  val pos_sub : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val add : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val opp : Big_int_Z.big_int -> Big_int_Z.big_int

  val sub : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val mul : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val pow_pos : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val pow : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val compare : Big_int_Z.big_int -> Big_int_Z.big_int -> comparison

  val leb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool

  val ltb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool

  val eqb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool

  val max : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val min : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val to_nat : Big_int_Z.big_int -> int

  val of_nat : int -> Big_int_Z.big_int

  val pos_div_eucl :
    Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int * Big_int_Z.big_int

  val div_eucl :
    Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int * Big_int_Z.big_int

  val div : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val modulo : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

  val eq_dec : Big_int_Z.big_int -> Big_int_Z.big_int -> bool
 end

val hd : 'a1 -> 'a1 list -> 'a1

val tl : 'a1 list -> 'a1 list

val in_dec : ('a1 -> 'a1 -> bool) -> 'a1 -> 'a1 list -> bool

val nth : int -> 'a1 list -> 'a1 -> 'a1

val nth_error : 'a1 list -> int -> 'a1 option

val rev : 'a1 list -> 'a1 list

val map : ('a1 -> 'a2) -> 'a1 list -> 'a2 list

val flat_map : ('a1 -> 'a2 list) -> 'a1 list -> 'a2 list

val fold_left : ('a1 -> 'a2 -> 'a1) -> 'a2 list -> 'a1 -> 'a1

val fold_right : ('a2 -> 'a1 -> 'a1) -> 'a1 -> 'a2 list -> 'a1

val existsb : ('a1 -> bool) -> 'a1 list -> bool

val forallb : ('a1 -> bool) -> 'a1 list -> bool

val filter : ('a1 -> bool) -> 'a1 list -> 'a1 list

val find : ('a1 -> bool) -> 'a1 list -> 'a1 option

val combine : 'a1 list -> 'a2 list -> ('a1 * 'a2) list

val skipn : int -> 'a1 list -> 'a1 list

val nodup : ('a1 -> 'a1 -> bool) -> 'a1 list -> 'a1 list

val seq : int -> int -> int list

type handling =
| Preserve
| Discard
| Swap
| Free

type call = { duration : Big_int_Z.big_int; returns : Big_int_Z.big_int;
              handled : handling }

type request = { arrival : Big_int_Z.big_int; weight : Big_int_Z.big_int;
                 prompt : Big_int_Z.big_int; decode : Big_int_Z.big_int;
                 more : (call * Big_int_Z.big_int) list }

type machine = { memory : Big_int_Z.big_int option;
                 block : Big_int_Z.big_int;
                 host_memory : Big_int_Z.big_int option;
                 batch_tokens : Big_int_Z.big_int option;
                 prefill_tokens : Big_int_Z.big_int option;
                 batch_requests : Big_int_Z.big_int option; hybrid : 
                 bool; chunked : bool; evict : bool; partial : bool;
                 pause : bool }

type function0 = { busy : Big_int_Z.big_int; any_decode : Big_int_Z.big_int;
                   any_prefill : Big_int_Z.big_int;
                   tokens : Big_int_Z.big_int; knee : Big_int_Z.big_int;
                   above : Big_int_Z.big_int; generated : Big_int_Z.big_int;
                   decode_requests : Big_int_Z.big_int;
                   prefill_requests : Big_int_Z.big_int;
                   decode_kv : Big_int_Z.big_int;
                   prefill_kv : Big_int_Z.big_int;
                   prefill_pairs : Big_int_Z.big_int;
                   swap_out_tokens : Big_int_Z.big_int;
                   swap_in_tokens : Big_int_Z.big_int;
                   swap_outs : Big_int_Z.big_int;
                   swap_ins : Big_int_Z.big_int; divisor : Big_int_Z.big_int }

type instance = { mach : machine; cost : function0 list;
                  requests : request list }

type state = { known : Big_int_Z.big_int; device : Big_int_Z.big_int;
               host : Big_int_Z.big_int; todo : Big_int_Z.big_int;
               rest : (call * Big_int_Z.big_int) list;
               ready : Big_int_Z.big_int; window : handling option;
               due : bool; going : bool; first : Big_int_Z.big_int option;
               over : Big_int_Z.big_int option; arrived : Big_int_Z.big_int;
               wt : Big_int_Z.big_int }

val start_of : request -> state

type act = { work : Big_int_Z.big_int; drop : Big_int_Z.big_int;
             out : Big_int_Z.big_int; back : Big_int_Z.big_int }

type batch = { start : Big_int_Z.big_int; acts : act list }

val m1 : state -> act -> Big_int_Z.big_int

val h1 : state -> act -> Big_int_Z.big_int

val m2 : state -> act -> Big_int_Z.big_int

val h2 : state -> act -> Big_int_Z.big_int

val decodes : state -> act -> bool

val prefills : state -> act -> bool

val generates : state -> act -> bool

type load = { tok : Big_int_Z.big_int; ptok : Big_int_Z.big_int;
              gen : Big_int_Z.big_int; ndec : Big_int_Z.big_int;
              npre : Big_int_Z.big_int; dkv : Big_int_Z.big_int;
              pkv : Big_int_Z.big_int; pairs : Big_int_Z.big_int;
              otok : Big_int_Z.big_int; itok : Big_int_Z.big_int;
              nout : Big_int_Z.big_int; nin : Big_int_Z.big_int;
              blk : Big_int_Z.big_int; hos : Big_int_Z.big_int }

val b2z : bool -> Big_int_Z.big_int

val if0 : bool -> Big_int_Z.big_int -> Big_int_Z.big_int

val ceil_div : Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

val load_of : machine -> state -> act -> load

val none : load

val plus : load -> load -> load

val total : machine -> state list -> act list -> load

val value_of : function0 -> load -> Big_int_Z.big_int

val lasts : function0 list -> load -> Big_int_Z.big_int

val orders : handling -> bool

val next : machine -> Big_int_Z.big_int -> state -> act -> state

val nexts :
  machine -> Big_int_Z.big_int -> state list -> act list -> state list

type objective =
| Makespan
| Busy
| Flow
| Weighted
| Ttft

val at_ : Big_int_Z.big_int option -> Big_int_Z.big_int

val sum : ('a1 -> Big_int_Z.big_int) -> 'a1 list -> Big_int_Z.big_int

val value : objective -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int

type slo = { to_first : Big_int_Z.big_int option;
             to_last : Big_int_Z.big_int option;
             between : Big_int_Z.big_int option }

type goal =
| Whole of objective
| Tail of bool * int
| Late of slo list

val place :
  Big_int_Z.big_int -> Big_int_Z.big_int list -> Big_int_Z.big_int list

val exceeds : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool

val late : slo -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool

val lates : slo list -> state list -> Big_int_Z.big_int

val result : goal -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int

val initial : instance -> state list

val is_h : handling -> handling option -> bool

val some : 'a1 option -> bool

val callingb : Big_int_Z.big_int -> state -> bool

val by_R9b : handling -> state -> bool

val withinb : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool

val nz : Big_int_Z.big_int -> bool

val imp : bool -> bool -> bool

val r2b : Big_int_Z.big_int -> state -> act -> bool

val r3b : machine -> state -> act -> bool

val r4b : state -> act -> bool

val r5_pauseb : state -> act -> bool

val r8b : machine -> Big_int_Z.big_int -> state -> act -> bool

val r9b : Big_int_Z.big_int -> state -> act -> bool

val r10b : state -> act -> bool

val localb : machine -> Big_int_Z.big_int -> state -> act -> bool

val fitsb : machine -> load -> bool

val jointb : machine -> load -> bool

val localsb : machine -> Big_int_Z.big_int -> state list -> act list -> bool

val runb :
  instance -> Big_int_Z.big_int -> state list -> batch list -> (state
  list * Big_int_Z.big_int) option

val referee : instance -> batch list -> goal -> Big_int_Z.big_int option

val mark : Big_int_Z.big_int option -> Big_int_Z.big_int option

val norm : bool -> Big_int_Z.big_int -> state -> state

val end_of : objective -> state -> Big_int_Z.big_int option

val weigh : objective -> state -> Big_int_Z.big_int

val rate : objective -> state list -> Big_int_Z.big_int

val fee : objective -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int

val timed : objective -> bool

module PositiveMap :
 sig
  type key = Big_int_Z.big_int

  type 'a tree =
  | Leaf
  | Node of 'a tree * 'a option * 'a tree

  type 'a t = 'a tree

  val empty : 'a1 t

  val find : key -> 'a1 t -> 'a1 option

  val add : key -> 'a1 -> 'a1 t -> 'a1 t
 end

val upto : Big_int_Z.big_int -> Big_int_Z.big_int list

val cand : bool -> Big_int_Z.big_int -> Big_int_Z.big_int list

val candidates : machine -> state -> act list

val opts : machine -> state -> (act * load) list

val handling_eqb : handling -> handling -> bool

val opt_eqb : ('a1 -> 'a1 -> bool) -> 'a1 option -> 'a1 option -> bool

val list_eqb : ('a1 -> 'a1 -> bool) -> 'a1 list -> 'a1 list -> bool

val seg_eqb : (call * Big_int_Z.big_int) -> (call * Big_int_Z.big_int) -> bool

val state_eqb : state -> state -> bool

type entry = { clock : Big_int_Z.big_int; states : state list;
               mark_of : Big_int_Z.big_int }

val same : Big_int_Z.big_int -> state list -> entry -> bool

val pick :
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list
  PositiveMap.t -> Big_int_Z.big_int -> state list -> Big_int_Z.big_int option

val put :
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list
  PositiveMap.t -> entry -> entry list PositiveMap.t

val build :
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list ->
  entry list PositiveMap.t

type row = { pblk : Big_int_Z.big_int; phos : Big_int_Z.big_int;
             ptk : Big_int_Z.big_int; ppt : Big_int_Z.big_int;
             prq : Big_int_Z.big_int }

val zero : row

val pay : row -> load -> Big_int_Z.big_int

val lim : Big_int_Z.big_int option -> Big_int_Z.big_int

val supply : machine -> row -> Big_int_Z.big_int

val priced : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool

val row_ok : machine -> row -> bool

val held : machine -> state -> load

val all_held : machine -> state list -> load

val unit_cost : function0 list -> bool

val insert : (state -> state -> bool) -> state -> state list -> state list

val sort : (state -> state -> bool) -> state list -> state list

val steady : instance -> objective -> bool

val urate : objective -> state -> Big_int_Z.big_int

type 'a search_tree =
| Tip
| Fork of 'a search_tree * int * 'a * 'a search_tree

val seek : int -> 'a1 search_tree -> 'a1 option

val each_of : ('a1 -> 'a2) -> 'a1 search_tree -> 'a2 search_tree

val items : 'a1 search_tree -> 'a1 list -> 'a1 list

type node = { idle : int; ended : bool; rated : Big_int_Z.big_int;
              hold : load; edges : (int * load) list;
              better : int search_tree; kinds : int list }

val far : Big_int_Z.big_int

val minus :
  Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list

val minimum :
  Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list

val place_in : int -> int list -> int list

val arrange : int list -> int list

val dead : node

val at_node : node search_tree -> int -> node

val name :
  (state * int) list search_tree -> (state -> int) -> state -> int option

val as_good : node search_tree -> int -> int -> bool

val for_state :
  node search_tree -> (state * int) list search_tree -> (state -> int) -> int
  -> state -> bool

val act_of : load -> Big_int_Z.big_int

val mostb : load -> load -> bool

val answers : instance -> bool -> load -> load -> bool

val rests : node -> (int * load) list

val subset : int list -> int list -> bool

val simulates :
  instance -> bool -> (int -> int -> bool) -> node -> node -> bool

val node_ok : instance -> bool -> node search_tree -> node -> bool

val name_ok :
  instance -> objective -> bool -> node search_tree -> (state * int) list
  search_tree -> (state -> int) -> (state * int) -> bool

val usable : instance -> bool -> load -> bool

val latest : Big_int_Z.big_int list -> node -> Big_int_Z.big_int

val overdue :
  Big_int_Z.big_int list option -> Big_int_Z.big_int -> node -> bool

type pot = Big_int_Z.big_int search_tree * Big_int_Z.big_int

val val0 : pot -> int -> Big_int_Z.big_int

val value_at :
  Big_int_Z.big_int -> Big_int_Z.big_int list option -> Big_int_Z.big_int ->
  row -> pot -> node -> Big_int_Z.big_int

type step = row * pot

val off : step

val layers_of :
  instance -> Big_int_Z.big_int -> node search_tree -> Big_int_Z.big_int list
  option -> Big_int_Z.big_int -> row -> row list -> step list

val tightens :
  Big_int_Z.big_int -> Big_int_Z.big_int -> node search_tree ->
  Big_int_Z.big_int list option -> pot -> int list -> Big_int_Z.big_int list
  -> bool

type opts_of =
  Big_int_Z.big_int list * ((int * load) * Big_int_Z.big_int list) list

type layer = { entries : (int list * Big_int_Z.big_int) list search_tree;
               steer : (int list -> int list option);
               guide : (int list -> int); used : int search_tree list }

val found : (int list -> int) -> layer -> int list -> Big_int_Z.big_int option

val held_at :
  (int list -> int) -> layer -> int list -> Big_int_Z.big_int -> bool

val all_as_good : node search_tree -> int list -> int list -> bool

val settled :
  Big_int_Z.big_int -> node search_tree -> (int list -> int) -> step list ->
  layer -> int list -> Big_int_Z.big_int -> bool

val rate_of : objective -> node search_tree -> int list -> Big_int_Z.big_int

val each :
  instance -> bool -> ((int * load) * Big_int_Z.big_int list) list list ->
  load -> int list -> Big_int_Z.big_int list -> int list list -> int list list

val tried : step -> (int * load) -> Big_int_Z.big_int

val options : node search_tree -> step list -> int -> opts_of

val slack_of :
  instance -> Big_int_Z.big_int -> step list -> Big_int_Z.big_int -> opts_of
  list -> Big_int_Z.big_int list

val table :
  node search_tree -> step list -> int search_tree -> step
  list * (int * opts_of) search_tree

val options_in :
  node search_tree -> (step list * (int * opts_of) search_tree) -> int ->
  opts_of

val tables :
  node search_tree -> step list -> layer -> (step list * (int * opts_of)
  search_tree) list

val follow :
  instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
  node search_tree -> (step list * (int * opts_of) search_tree) -> (int
  list * Big_int_Z.big_int) -> Big_int_Z.big_int * int list list

val all_ended : node search_tree -> int list -> bool

val settle :
  Big_int_Z.big_int -> node search_tree -> (int list -> int) -> step list ->
  layer -> (Big_int_Z.big_int * int list list) -> bool

type vector = { since : int; span : int; steps : step list }

val now_of : vector list -> step list

val later : vector list -> vector list

val closed :
  instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
  node search_tree -> (int list -> int) -> (vector list ->
  (Big_int_Z.big_int * int list list) list list -> layer) -> int -> vector
  list -> layer -> bool

val active : act -> bool

val every :
  machine -> (load -> act list -> bool) -> (act * load) list list -> load ->
  act list -> bool

val waits : state list -> Big_int_Z.big_int list

val lag : state list -> state list -> Big_int_Z.big_int

val alike : state -> state -> bool

val bounded :
  objective -> Big_int_Z.big_int -> (Big_int_Z.big_int -> state list ->
  Big_int_Z.big_int) -> (state list -> Big_int_Z.big_int -> state list) ->
  entry list PositiveMap.t -> state list -> Big_int_Z.big_int -> bool

val batch_ok :
  instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
  Big_int_Z.big_int -> state list) -> entry list PositiveMap.t ->
  Big_int_Z.big_int -> state list -> Big_int_Z.big_int -> load -> act list ->
  bool

val kept_ok :
  instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
  Big_int_Z.big_int -> state list) -> entry list PositiveMap.t -> state list
  -> Big_int_Z.big_int -> bool

val origin : instance -> objective -> (state -> state -> bool) -> state list

val offset : instance -> objective -> Big_int_Z.big_int

val target_of :
  instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int

type price = { from : int; ticks : int; costs : row list }

val latest_of :
  Big_int_Z.big_int list option -> (row list * Big_int_Z.big_int list) list
  -> Big_int_Z.big_int list option

val steps_of :
  instance -> Big_int_Z.big_int -> node search_tree -> Big_int_Z.big_int list
  option -> price -> step list

val narrowed :
  instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> node search_tree ->
  int list -> Big_int_Z.big_int list option -> (row list * Big_int_Z.big_int
  list) list -> bool

val start_nodes :
  instance -> (state * int) list search_tree -> (state -> int) -> int list

val no_run :
  instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
  node search_tree -> (state * int) list search_tree -> (state -> int) ->
  (int list -> int) -> Big_int_Z.big_int list option -> price list -> (row
  list * Big_int_Z.big_int list) list -> int -> (vector list ->
  (Big_int_Z.big_int * int list list) list list -> layer) -> bool

val check_slots :
  instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
  node search_tree -> (state * int) list search_tree -> (state -> int) ->
  (int list -> int) -> price list -> (row list * Big_int_Z.big_int list) list
  -> int -> (vector list -> (Big_int_Z.big_int * int list list) list list ->
  layer) -> bool

val all_late : instance -> Big_int_Z.big_int -> Big_int_Z.big_int

val check_longest :
  instance -> Big_int_Z.big_int -> bool -> node search_tree -> (state * int)
  list search_tree -> (state -> int) -> (int list -> int) ->
  Big_int_Z.big_int list -> price list -> (row list * Big_int_Z.big_int list)
  list -> int -> (vector list -> (Big_int_Z.big_int * int list list) list
  list -> layer) -> bool

val check :
  instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
  (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
  Big_int_Z.big_int -> state list) -> entry list -> bool

val grows : function0 -> bool

val parts : machine -> Big_int_Z.big_int -> Big_int_Z.big_int

val gone : state -> bool

val kv : state -> Big_int_Z.big_int

val lack : state -> Big_int_Z.big_int

val future :
  machine -> Big_int_Z.big_int -> (call * Big_int_Z.big_int) list ->
  Big_int_Z.big_int

val delays : state -> Big_int_Z.big_int

val toll :
  function0 -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

val solo :
  function0 list -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int

val least_load : Big_int_Z.big_int -> load * load

val quick : function0 list -> Big_int_Z.big_int -> Big_int_Z.big_int

val step0 : instance -> Big_int_Z.big_int -> Big_int_Z.big_int

val need : instance -> Big_int_Z.big_int -> state -> Big_int_Z.big_int

val tail : instance -> Big_int_Z.big_int -> state -> Big_int_Z.big_int

val first_by :
  instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
  Big_int_Z.big_int

val over_by :
  instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
  Big_int_Z.big_int

val gap_by :
  instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
  Big_int_Z.big_int

val shortest_of : instance -> Big_int_Z.big_int

val simple : instance -> bool

val lates_by : instance -> slo list -> state list -> Big_int_Z.big_int

val alone : instance -> goal -> Big_int_Z.big_int

type prices = { c_tok : Big_int_Z.big_int; c_gen : Big_int_Z.big_int;
                c_dec : Big_int_Z.big_int; c_pre : Big_int_Z.big_int;
                c_dkv : Big_int_Z.big_int; c_pkv : Big_int_Z.big_int;
                c_pairs : Big_int_Z.big_int; c_ptok : Big_int_Z.big_int;
                c_blk : Big_int_Z.big_int; c_pack : Big_int_Z.big_int;
                packs : Big_int_Z.big_int }

val priced0 : prices -> bool

val room_of : machine -> Big_int_Z.big_int

val packing :
  machine -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

val pack : machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int

val blocks_of : machine -> Big_int_Z.big_int -> Big_int_Z.big_int

val limit : machine -> Big_int_Z.big_int option

val parts_to :
  machine -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int

val held_in : machine -> int -> Big_int_Z.big_int -> Big_int_Z.big_int

val e_of : Big_int_Z.big_int -> bool -> Big_int_Z.big_int

val fixed :
  machine -> prices -> Big_int_Z.big_int -> bool -> Big_int_Z.big_int ->
  Big_int_Z.big_int

val moved :
  prices -> Big_int_Z.big_int -> bool -> Big_int_Z.big_int ->
  Big_int_Z.big_int

val form :
  machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
  Big_int_Z.big_int -> Big_int_Z.big_int

val forms :
  machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int list

val least : Big_int_Z.big_int list -> Big_int_Z.big_int

val worth :
  machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int

type piece = { from0 : Big_int_Z.big_int; amount : Big_int_Z.big_int;
               behind : Big_int_Z.big_int }

type job = { ends : Big_int_Z.big_int; left : piece list }

val counted :
  Big_int_Z.big_int -> Big_int_Z.big_int -> job list -> Big_int_Z.big_int

val early :
  Big_int_Z.big_int -> (Big_int_Z.big_int * Big_int_Z.big_int) list ->
  Big_int_Z.big_int

val merge :
  (Big_int_Z.big_int * Big_int_Z.big_int) list ->
  (Big_int_Z.big_int * Big_int_Z.big_int) list ->
  (Big_int_Z.big_int * Big_int_Z.big_int) list

val rising : (Big_int_Z.big_int * Big_int_Z.big_int) list -> bool

val pairs_of : piece list -> (Big_int_Z.big_int * Big_int_Z.big_int) list

val line : function0 -> prices

val base : function0 -> Big_int_Z.big_int

val extra : function0 -> Big_int_Z.big_int

val own : function0 -> prices

val once : prices

type resource =
| ByMemory
| ByPacking of Big_int_Z.big_int
| ByTokens
| ByPrefill

val unit_of : resource -> prices

val most_prefill : machine -> Big_int_Z.big_int

val supply_of : machine -> resource -> Big_int_Z.big_int

val blend :
  Big_int_Z.big_int -> prices -> Big_int_Z.big_int -> prices ->
  Big_int_Z.big_int -> prices

val room_pre : machine -> Big_int_Z.big_int

val surcharge : machine -> function0 -> Big_int_Z.big_int

val mixed : machine -> function0 -> resource -> prices

type token = { wait : Big_int_Z.big_int; at_known : Big_int_Z.big_int;
               from_kv : Big_int_Z.big_int }

val grow : int -> Big_int_Z.big_int -> token list -> token list

val following :
  Big_int_Z.big_int -> Big_int_Z.big_int -> (call * Big_int_Z.big_int) list
  -> token list

val to_come : state -> token list

val span0 :
  instance -> (prices * Big_int_Z.big_int) list -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int

val pause_of : bool -> Big_int_Z.big_int -> Big_int_Z.big_int

val length_of :
  instance -> bool -> (prices * Big_int_Z.big_int) list -> token list ->
  Big_int_Z.big_int

val clock0 :
  bool -> Big_int_Z.big_int -> Big_int_Z.big_int -> state -> Big_int_Z.big_int

type rated0 = Big_int_Z.big_int * piece list

val beyond : Big_int_Z.big_int option -> rated0 -> bool

val newly :
  Big_int_Z.big_int option -> Big_int_Z.big_int -> (Big_int_Z.big_int * piece
  list) -> bool

val climb :
  rated0 list -> Big_int_Z.big_int option -> Big_int_Z.big_int list ->
  (Big_int_Z.big_int * Big_int_Z.big_int) list -> Big_int_Z.big_int

val falling : Big_int_Z.big_int list -> bool

val in_order : rated0 -> bool

val well : instance -> bool

val own_spans : instance -> (prices * Big_int_Z.big_int) list

val tokens_of : state -> token list

val clock_0 : bool -> state -> Big_int_Z.big_int

val placed :
  instance -> bool -> prices -> Big_int_Z.big_int ->
  (prices * Big_int_Z.big_int) list -> Big_int_Z.big_int -> Big_int_Z.big_int
  -> token list -> piece list

val long :
  instance -> bool -> (prices * Big_int_Z.big_int) list -> state ->
  Big_int_Z.big_int

val pieces :
  instance -> bool -> prices -> Big_int_Z.big_int ->
  (prices * Big_int_Z.big_int) list -> state -> piece list

val resource_ok : machine -> resource -> bool

val work_in : instance -> prices -> Big_int_Z.big_int

val fewest :
  instance -> resource -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int

val fewest_prefills : instance -> Big_int_Z.big_int

val busy_bound :
  instance -> function0 -> resource -> Big_int_Z.big_int -> Big_int_Z.big_int
  -> Big_int_Z.big_int

val busy_ok :
  instance -> function0 -> resource -> Big_int_Z.big_int -> Big_int_Z.big_int
  -> Big_int_Z.big_int -> bool

val earliest : instance -> Big_int_Z.big_int

val is_flow : objective -> bool

val den_of : instance -> function0 -> resource -> Big_int_Z.big_int

val least_of : instance -> function0 -> resource -> Big_int_Z.big_int

val rated_of :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  state -> Big_int_Z.big_int * piece list

val own_part :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  state -> rated0 -> Big_int_Z.big_int

val own_parts :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  state list -> rated0 list -> Big_int_Z.big_int

val flow_ok :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  Big_int_Z.big_int list -> Big_int_Z.big_int -> bool

val shares_ok :
  instance -> objective -> int -> resource -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int list ->
  Big_int_Z.big_int -> bool

type payer = { since0 : Big_int_Z.big_int; till : Big_int_Z.big_int;
               gain : (Big_int_Z.big_int -> Big_int_Z.big_int);
               toll0 : (Big_int_Z.big_int -> Big_int_Z.big_int);
               fee0 : (Big_int_Z.big_int -> Big_int_Z.big_int) }

val fee0 : payer -> Big_int_Z.big_int -> Big_int_Z.big_int

val later0 : Big_int_Z.big_int -> piece -> piece

val kappa :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int

type bands = (Big_int_Z.big_int * Big_int_Z.big_int) list

val gain_of : bands -> Big_int_Z.big_int -> Big_int_Z.big_int

val toll_of :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> bands -> Big_int_Z.big_int

val right : bands -> bool

val slot_of :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int

val opens : Big_int_Z.big_int -> Big_int_Z.big_int -> int -> Big_int_Z.big_int

val spend :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int list -> Big_int_Z.big_int

val ends_from :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int list -> Big_int_Z.big_int list

type plan = { split : bool; rungs : Big_int_Z.big_int list;
              firsts : Big_int_Z.big_int list;
              tries : Big_int_Z.big_int list list;
              cells : Big_int_Z.big_int list; slots : int;
              dues : Big_int_Z.big_int list }

val zip_max :
  Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list

val most : Big_int_Z.big_int list list -> Big_int_Z.big_int list

val tolls :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) -> int ->
  Big_int_Z.big_int list -> Big_int_Z.big_int list -> bands ->
  Big_int_Z.big_int list

val amount_in : bands -> piece list -> Big_int_Z.big_int

val made :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
  Big_int_Z.big_int list -> int -> Big_int_Z.big_int list -> int -> piece
  list -> bands -> Big_int_Z.big_int * Big_int_Z.big_int list

val cell :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int -> int
  -> (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int
  -> Big_int_Z.big_int -> Big_int_Z.big_int

val head :
  Big_int_Z.big_int -> Big_int_Z.big_int -> int -> piece ->
  (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int ->
  Big_int_Z.big_int

val by_cells :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int -> int
  -> piece -> (Big_int_Z.big_int * Big_int_Z.big_int list) list ->
  (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int list -> Big_int_Z.big_int

val share : machine -> Big_int_Z.big_int -> function0 -> resource -> prices

val unit_ticks : machine -> function0 -> resource -> Big_int_Z.big_int

val gap_of :
  machine -> Big_int_Z.big_int -> function0 -> resource -> Big_int_Z.big_int

val zip_add :
  Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list

val no_later : Big_int_Z.big_int -> piece list -> Big_int_Z.big_int

val plan_value :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int list ->
  Big_int_Z.big_int -> piece list -> Big_int_Z.big_int -> plan ->
  Big_int_Z.big_int option

val values :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int list ->
  Big_int_Z.big_int -> objective -> Big_int_Z.big_int -> (state -> piece
  list) -> (state -> Big_int_Z.big_int) -> state list -> plan list ->
  Big_int_Z.big_int option

val within_prices :
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int list ->
  Big_int_Z.big_int list -> bool

val lone : instance -> state -> Big_int_Z.big_int

val speed_bound :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
  Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int option

val speed_ok :
  instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
  Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int -> bool

val speed_proves :
  instance -> objective -> int -> resource -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
  Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
  Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int -> bool

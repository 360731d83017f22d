
(** val negb : bool -> bool **)

let negb = function
| true -> false
| false -> true

(** val option_map : ('a1 -> 'a2) -> 'a1 option -> 'a2 option **)

let option_map f = function
| Some a -> Some (f a)
| None -> None

(** val fst : ('a1 * 'a2) -> 'a1 **)

let fst = function
| (x, _) -> x

(** val snd : ('a1 * 'a2) -> 'a2 **)

let snd = function
| (_, y) -> y

(** val length : 'a1 list -> int **)

let rec length = function
| [] -> 0
| _ :: l' -> Stdlib.Int.succ (length l')

(** val app : 'a1 list -> 'a1 list -> 'a1 list **)

let rec app l m =
  match l with
  | [] -> m
  | a :: l1 -> a :: (app l1 m)

type comparison =
| Eq
| Lt
| Gt

(** val pred : int -> int **)

let pred = fun n -> Stdlib.max 0 (n-1)

module Coq__1 = struct
 (** val add : int -> int -> int **)let rec add = (+)
end
include Coq__1

(** val sub : int -> int -> int **)

let rec sub = fun n m -> Stdlib.max 0 (n-m)

(** val eqb : bool -> bool -> bool **)

let eqb b1 b2 =
  if b1 then b2 else if b2 then false else true

module Nat =
 struct
  (** val ltb : int -> int -> bool **)

  let ltb n m =
    ((<=) : int -> int -> bool) (Stdlib.Int.succ n) m
 end

module Pos =
 struct
  (** val succ : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let rec succ = Big_int_Z.succ_big_int

  (** val add :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let rec add = Big_int_Z.add_big_int

  (** val add_carry :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  and add_carry x y =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q ->
        (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
        (add_carry p q))
        (fun q -> Big_int_Z.mult_int_big_int 2 (add_carry p q))
        (fun _ ->
        (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
        (succ p))
        y)
      (fun p ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q -> Big_int_Z.mult_int_big_int 2 (add_carry p q))
        (fun q ->
        (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
        (add p q))
        (fun _ -> Big_int_Z.mult_int_big_int 2 (succ p))
        y)
      (fun _ ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q ->
        (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
        (succ q))
        (fun q -> Big_int_Z.mult_int_big_int 2 (succ q))
        (fun _ ->
        (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
        Big_int_Z.unit_big_int)
        y)
      x

  (** val pred_double : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let rec pred_double x =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p ->
      (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      (Big_int_Z.mult_int_big_int 2 p))
      (fun p ->
      (fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      (pred_double p))
      (fun _ -> Big_int_Z.unit_big_int)
      x

  (** val mul :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let rec mul = Big_int_Z.mult_big_int

  (** val iter : ('a1 -> 'a1) -> 'a1 -> Big_int_Z.big_int -> 'a1 **)

  let rec iter f x n =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun n' -> f (iter f (iter f x n') n'))
      (fun n' -> iter f (iter f x n') n')
      (fun _ -> f x)
      n

  (** val compare_cont :
      comparison -> Big_int_Z.big_int -> Big_int_Z.big_int -> comparison **)

  let rec compare_cont = (fun c x y -> let s = Big_int_Z.compare_big_int x y in
  if s = 0 then c else if s < 0 then Lt else Gt)

  (** val compare : Big_int_Z.big_int -> Big_int_Z.big_int -> comparison **)

  let compare = (fun x y -> let s = Big_int_Z.compare_big_int x y in
  if s = 0 then Eq else if s < 0 then Lt else Gt)

  (** val eqb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let rec eqb p q =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p0 ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q0 -> eqb p0 q0)
        (fun _ -> false)
        (fun _ -> false)
        q)
      (fun p0 ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun _ -> false)
        (fun q0 -> eqb p0 q0)
        (fun _ -> false)
        q)
      (fun _ ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun _ -> false)
        (fun _ -> false)
        (fun _ -> true)
        q)
      p

  (** val iter_op : ('a1 -> 'a1 -> 'a1) -> Big_int_Z.big_int -> 'a1 -> 'a1 **)

  let rec iter_op op p a =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p0 -> op a (iter_op op p0 (op a a)))
      (fun p0 -> iter_op op p0 (op a a))
      (fun _ -> a)
      p

  (** val to_nat : Big_int_Z.big_int -> int **)

  let to_nat x =
    iter_op Coq__1.add x (Stdlib.Int.succ 0)

  (** val of_succ_nat : int -> Big_int_Z.big_int **)

  let rec of_succ_nat n =
    (fun fO fS n -> if n=0 then fO () else fS (n-1))
      (fun _ -> Big_int_Z.unit_big_int)
      (fun x -> succ (of_succ_nat x))
      n

  (** val eq_dec : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let rec eq_dec p x0 =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p0 ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun p1 -> eq_dec p0 p1)
        (fun _ -> false)
        (fun _ -> false)
        x0)
      (fun p0 ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun _ -> false)
        (fun p1 -> eq_dec p0 p1)
        (fun _ -> false)
        x0)
      (fun _ ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun _ -> false)
        (fun _ -> false)
        (fun _ -> true)
        x0)
      p
 end

module Z =
 struct
  (** val double : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let double x =
    (fun fO fp fn z -> let s = Big_int_Z.sign_big_int z in
  if s = 0 then fO () else if s > 0 then fp z
  else fn (Big_int_Z.minus_big_int z))
      (fun _ -> Big_int_Z.zero_big_int)
      (fun p -> (Big_int_Z.mult_int_big_int 2 p))
      (fun p -> Big_int_Z.minus_big_int (Big_int_Z.mult_int_big_int 2 p))
      x

  (** val succ_double : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let succ_double x =
    (fun fO fp fn z -> let s = Big_int_Z.sign_big_int z in
  if s = 0 then fO () else if s > 0 then fp z
  else fn (Big_int_Z.minus_big_int z))
      (fun _ -> Big_int_Z.unit_big_int)
      (fun p ->
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      p))
      (fun p -> Big_int_Z.minus_big_int (Pos.pred_double p))
      x

  (** val pred_double : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let pred_double x =
    (fun fO fp fn z -> let s = Big_int_Z.sign_big_int z in
  if s = 0 then fO () else if s > 0 then fp z
  else fn (Big_int_Z.minus_big_int z))
      (fun _ -> Big_int_Z.minus_big_int Big_int_Z.unit_big_int)
      (fun p -> (Pos.pred_double p))
      (fun p -> Big_int_Z.minus_big_int
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x)) p))
      x

  (** val pos_sub :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let rec pos_sub x y =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun p ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q -> double (pos_sub p q))
        (fun q -> succ_double (pos_sub p q))
        (fun _ -> (Big_int_Z.mult_int_big_int 2 p))
        y)
      (fun p ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q -> pred_double (pos_sub p q))
        (fun q -> double (pos_sub p q))
        (fun _ -> (Pos.pred_double p))
        y)
      (fun _ ->
      (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
        (fun q -> Big_int_Z.minus_big_int (Big_int_Z.mult_int_big_int 2
        q))
        (fun q -> Big_int_Z.minus_big_int (Pos.pred_double q))
        (fun _ -> Big_int_Z.zero_big_int)
        y)
      x

  (** val add :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let add = Big_int_Z.add_big_int

  (** val opp : Big_int_Z.big_int -> Big_int_Z.big_int **)

  let opp = Big_int_Z.minus_big_int

  (** val sub :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let sub = Big_int_Z.sub_big_int

  (** val mul :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let mul = Big_int_Z.mult_big_int

  (** val pow_pos :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let pow_pos z0 =
    Pos.iter (mul z0) Big_int_Z.unit_big_int

  (** val pow :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let pow x y =
    (fun fO fp fn z -> let s = Big_int_Z.sign_big_int z in
  if s = 0 then fO () else if s > 0 then fp z
  else fn (Big_int_Z.minus_big_int z))
      (fun _ -> Big_int_Z.unit_big_int)
      (fun p -> pow_pos x p)
      (fun _ -> Big_int_Z.zero_big_int)
      y

  (** val compare : Big_int_Z.big_int -> Big_int_Z.big_int -> comparison **)

  let compare = (fun x y -> let s = Big_int_Z.compare_big_int x y in
  if s = 0 then Eq else if s < 0 then Lt else Gt)

  (** val leb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let leb = Big_int_Z.le_big_int

  (** val ltb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let ltb = Big_int_Z.lt_big_int

  (** val eqb : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let eqb = Big_int_Z.eq_big_int

  (** val max :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let max = Big_int_Z.max_big_int

  (** val min :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let min = Big_int_Z.min_big_int

  (** val to_nat : Big_int_Z.big_int -> int **)

  let to_nat = (fun z -> if Big_int_Z.sign_big_int z < 0 then 0 else Big_int_Z.int_of_big_int z)

  (** val of_nat : int -> Big_int_Z.big_int **)

  let of_nat = Big_int_Z.big_int_of_int

  (** val pos_div_eucl :
      Big_int_Z.big_int -> Big_int_Z.big_int ->
      Big_int_Z.big_int * Big_int_Z.big_int **)

  let rec pos_div_eucl a b =
    (fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
      (fun a' ->
      let (q, r) = pos_div_eucl a' b in
      let r' =
        add (mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) r)
          Big_int_Z.unit_big_int
      in
      if ltb r' b
      then ((mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q), r')
      else ((add
              (mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q)
              Big_int_Z.unit_big_int), (sub r' b)))
      (fun a' ->
      let (q, r) = pos_div_eucl a' b in
      let r' = mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) r in
      if ltb r' b
      then ((mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q), r')
      else ((add
              (mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q)
              Big_int_Z.unit_big_int), (sub r' b)))
      (fun _ ->
      if leb (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) b
      then (Big_int_Z.zero_big_int, Big_int_Z.unit_big_int)
      else (Big_int_Z.unit_big_int, Big_int_Z.zero_big_int))
      a

  (** val div_eucl :
      Big_int_Z.big_int -> Big_int_Z.big_int ->
      Big_int_Z.big_int * Big_int_Z.big_int **)

  let div_eucl = Big_int_Z.(fun x y ->
  match sign_big_int y with
  | 0 -> (zero_big_int, x)
  | 1 -> quomod_big_int x y
  | _ -> let (q, r) = quomod_big_int (add_int_big_int (-1) x) y in
          (add_int_big_int (-1) q, add_big_int (add_int_big_int 1 y) r))

  (** val div :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let div = Big_int_Z.(fun x y ->
  match sign_big_int y with
  | 0 -> zero_big_int
  | 1 -> div_big_int x y
  | _ -> add_int_big_int (-1) (div_big_int (add_int_big_int (-1) x) y))

  (** val modulo :
      Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

  let modulo = Big_int_Z.(fun x y ->
  match sign_big_int y with
  | 0 -> x
  | 1 -> mod_big_int x y
  | _ -> add_big_int y (add_int_big_int 1 (mod_big_int (add_int_big_int (-1) x) y)))

  (** val eq_dec : Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

  let eq_dec = Big_int_Z.eq_big_int
 end

(** val hd : 'a1 -> 'a1 list -> 'a1 **)

let hd default = function
| [] -> default
| x :: _ -> x

(** val tl : 'a1 list -> 'a1 list **)

let tl = function
| [] -> []
| _ :: m -> m

(** val in_dec : ('a1 -> 'a1 -> bool) -> 'a1 -> 'a1 list -> bool **)

let rec in_dec h a = function
| [] -> false
| y :: l0 -> let s = h y a in if s then true else in_dec h a l0

(** val nth : int -> 'a1 list -> 'a1 -> 'a1 **)

let rec nth n l default =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> match l with
              | [] -> default
              | x :: _ -> x)
    (fun m -> match l with
              | [] -> default
              | _ :: t0 -> nth m t0 default)
    n

(** val nth_error : 'a1 list -> int -> 'a1 option **)

let rec nth_error l n =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> match l with
              | [] -> None
              | x :: _ -> Some x)
    (fun n0 -> match l with
               | [] -> None
               | _ :: l0 -> nth_error l0 n0)
    n

(** val rev : 'a1 list -> 'a1 list **)

let rec rev = function
| [] -> []
| x :: l' -> app (rev l') (x :: [])

(** val map : ('a1 -> 'a2) -> 'a1 list -> 'a2 list **)

let rec map f = function
| [] -> []
| a :: t0 -> (f a) :: (map f t0)

(** val flat_map : ('a1 -> 'a2 list) -> 'a1 list -> 'a2 list **)

let rec flat_map f = function
| [] -> []
| x :: t0 -> app (f x) (flat_map f t0)

(** val fold_left : ('a1 -> 'a2 -> 'a1) -> 'a2 list -> 'a1 -> 'a1 **)

let rec fold_left f l a0 =
  match l with
  | [] -> a0
  | b :: t0 -> fold_left f t0 (f a0 b)

(** val fold_right : ('a2 -> 'a1 -> 'a1) -> 'a1 -> 'a2 list -> 'a1 **)

let rec fold_right f a0 = function
| [] -> a0
| b :: t0 -> f b (fold_right f a0 t0)

(** val existsb : ('a1 -> bool) -> 'a1 list -> bool **)

let rec existsb f = function
| [] -> false
| a :: l0 -> (||) (f a) (existsb f l0)

(** val forallb : ('a1 -> bool) -> 'a1 list -> bool **)

let rec forallb f = function
| [] -> true
| a :: l0 -> (&&) (f a) (forallb f l0)

(** val filter : ('a1 -> bool) -> 'a1 list -> 'a1 list **)

let rec filter f = function
| [] -> []
| x :: l0 -> if f x then x :: (filter f l0) else filter f l0

(** val find : ('a1 -> bool) -> 'a1 list -> 'a1 option **)

let rec find f = function
| [] -> None
| x :: tl0 -> if f x then Some x else find f tl0

(** val combine : 'a1 list -> 'a2 list -> ('a1 * 'a2) list **)

let rec combine l l' =
  match l with
  | [] -> []
  | x :: tl0 ->
    (match l' with
     | [] -> []
     | y :: tl' -> (x, y) :: (combine tl0 tl'))

(** val skipn : int -> 'a1 list -> 'a1 list **)

let rec skipn n l =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> l)
    (fun n0 -> match l with
               | [] -> []
               | _ :: l0 -> skipn n0 l0)
    n

(** val nodup : ('a1 -> 'a1 -> bool) -> 'a1 list -> 'a1 list **)

let rec nodup decA = function
| [] -> []
| x :: xs -> if in_dec decA x xs then nodup decA xs else x :: (nodup decA xs)

(** val seq : int -> int -> int list **)

let rec seq start0 len =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> [])
    (fun len0 -> start0 :: (seq (Stdlib.Int.succ start0) len0))
    len

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

(** val start_of : request -> state **)

let start_of r =
  { known = r.prompt; device = Big_int_Z.zero_big_int; host =
    Big_int_Z.zero_big_int; todo = r.decode; rest = r.more; ready =
    r.arrival; window = None; due = false; going = false; first = None;
    over = None; arrived = r.arrival; wt = r.weight }

type act = { work : Big_int_Z.big_int; drop : Big_int_Z.big_int;
             out : Big_int_Z.big_int; back : Big_int_Z.big_int }

type batch = { start : Big_int_Z.big_int; acts : act list }

(** val m1 : state -> act -> Big_int_Z.big_int **)

let m1 s a =
  Z.sub s.device (Z.sub a.drop (Z.min a.drop s.host))

(** val h1 : state -> act -> Big_int_Z.big_int **)

let h1 s a =
  Z.sub s.host (Z.min a.drop s.host)

(** val m2 : state -> act -> Big_int_Z.big_int **)

let m2 s a =
  Z.add (Z.sub (m1 s a) a.out) a.back

(** val h2 : state -> act -> Big_int_Z.big_int **)

let h2 s a =
  Z.sub (Z.add (h1 s a) a.out) a.back

(** val decodes : state -> act -> bool **)

let decodes s a =
  (&&)
    ((&&) (negb (Z.eqb a.work Big_int_Z.zero_big_int))
      (Z.ltb Big_int_Z.zero_big_int (m2 s a)))
    (Z.eqb (Z.sub s.known (m2 s a)) Big_int_Z.unit_big_int)

(** val prefills : state -> act -> bool **)

let prefills s a =
  (&&) (negb (Z.eqb a.work Big_int_Z.zero_big_int)) (negb (decodes s a))

(** val generates : state -> act -> bool **)

let generates s a =
  (&&) (negb (Z.eqb a.work Big_int_Z.zero_big_int))
    (Z.eqb (Z.add (m2 s a) a.work) s.known)

type load = { tok : Big_int_Z.big_int; ptok : Big_int_Z.big_int;
              gen : Big_int_Z.big_int; ndec : Big_int_Z.big_int;
              npre : Big_int_Z.big_int; dkv : Big_int_Z.big_int;
              pkv : Big_int_Z.big_int; pairs : Big_int_Z.big_int;
              otok : Big_int_Z.big_int; itok : Big_int_Z.big_int;
              nout : Big_int_Z.big_int; nin : Big_int_Z.big_int;
              blk : Big_int_Z.big_int; hos : Big_int_Z.big_int }

(** val b2z : bool -> Big_int_Z.big_int **)

let b2z = function
| true -> Big_int_Z.unit_big_int
| false -> Big_int_Z.zero_big_int

(** val if0 : bool -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let if0 b x =
  if b then x else Big_int_Z.zero_big_int

(** val ceil_div :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let ceil_div x q =
  Z.opp (Z.div (Z.opp x) q)

(** val load_of : machine -> state -> act -> load **)

let load_of m s a =
  { tok = a.work; ptok = (if0 (prefills s a) a.work); gen =
    (b2z (generates s a)); ndec = (b2z (decodes s a)); npre =
    (b2z (prefills s a)); dkv = (if0 (decodes s a) (m2 s a)); pkv =
    (if0 (prefills s a) (m2 s a)); pairs =
    (if0 (prefills s a)
      (Z.add (Z.mul a.work a.work)
        (Z.mul
          (Z.mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) a.work)
          (m2 s a)))); otok = a.out; itok = a.back; nout =
    (b2z (negb (Z.eqb a.out Big_int_Z.zero_big_int))); nin =
    (b2z (negb (Z.eqb a.back Big_int_Z.zero_big_int))); blk =
    (ceil_div (Z.add (m2 s a) a.work) m.block); hos = (h2 s a) }

(** val none : load **)

let none =
  { tok = Big_int_Z.zero_big_int; ptok = Big_int_Z.zero_big_int; gen =
    Big_int_Z.zero_big_int; ndec = Big_int_Z.zero_big_int; npre =
    Big_int_Z.zero_big_int; dkv = Big_int_Z.zero_big_int; pkv =
    Big_int_Z.zero_big_int; pairs = Big_int_Z.zero_big_int; otok =
    Big_int_Z.zero_big_int; itok = Big_int_Z.zero_big_int; nout =
    Big_int_Z.zero_big_int; nin = Big_int_Z.zero_big_int; blk =
    Big_int_Z.zero_big_int; hos = Big_int_Z.zero_big_int }

(** val plus : load -> load -> load **)

let plus x y =
  { tok = (Z.add x.tok y.tok); ptok = (Z.add x.ptok y.ptok); gen =
    (Z.add x.gen y.gen); ndec = (Z.add x.ndec y.ndec); npre =
    (Z.add x.npre y.npre); dkv = (Z.add x.dkv y.dkv); pkv =
    (Z.add x.pkv y.pkv); pairs = (Z.add x.pairs y.pairs); otok =
    (Z.add x.otok y.otok); itok = (Z.add x.itok y.itok); nout =
    (Z.add x.nout y.nout); nin = (Z.add x.nin y.nin); blk =
    (Z.add x.blk y.blk); hos = (Z.add x.hos y.hos) }

(** val total : machine -> state list -> act list -> load **)

let rec total m ss aa =
  match ss with
  | [] -> none
  | s :: ss0 ->
    (match aa with
     | [] -> none
     | a :: aa0 -> plus (load_of m s a) (total m ss0 aa0))

(** val value_of : function0 -> load -> Big_int_Z.big_int **)

let value_of f l =
  Z.add
    (Z.add
      (Z.add
        (Z.add
          (Z.add
            (Z.add
              (Z.add
                (Z.add
                  (Z.add
                    (Z.add
                      (Z.add
                        (Z.add
                          (Z.add
                            (Z.add
                              (Z.mul f.busy
                                (b2z
                                  (Z.ltb Big_int_Z.zero_big_int
                                    (Z.add l.ndec l.npre))))
                              (Z.mul f.any_decode
                                (b2z (Z.ltb Big_int_Z.zero_big_int l.ndec))))
                            (Z.mul f.any_prefill
                              (b2z (Z.ltb Big_int_Z.zero_big_int l.npre))))
                          (Z.mul f.tokens l.tok))
                        (Z.mul f.above
                          (Z.max Big_int_Z.zero_big_int (Z.sub l.tok f.knee))))
                      (Z.mul f.generated l.gen))
                    (Z.mul f.decode_requests l.ndec))
                  (Z.mul f.prefill_requests l.npre))
                (Z.mul f.decode_kv l.dkv)) (Z.mul f.prefill_kv l.pkv))
            (Z.mul f.prefill_pairs l.pairs)) (Z.mul f.swap_out_tokens l.otok))
        (Z.mul f.swap_in_tokens l.itok)) (Z.mul f.swap_outs l.nout))
    (Z.mul f.swap_ins l.nin)

(** val lasts : function0 list -> load -> Big_int_Z.big_int **)

let lasts fs l =
  fold_right (fun f d -> Z.max (ceil_div (value_of f l) f.divisor) d)
    Big_int_Z.unit_big_int fs

(** val orders : handling -> bool **)

let orders = function
| Preserve -> false
| Free -> false
| _ -> true

(** val next : machine -> Big_int_Z.big_int -> state -> act -> state **)

let next m e s a =
  let h = h2 s a in
  if Z.eqb a.work Big_int_Z.zero_big_int
  then { known = s.known; device = (m2 s a); host = h; todo = s.todo; rest =
         s.rest; ready = s.ready; window = s.window; due = false; going =
         false; first = s.first; over = s.over; arrived = s.arrived; wt =
         s.wt }
  else let m0 = Z.add (m2 s a) a.work in
       if negb (Z.eqb m0 s.known)
       then { known = s.known; device = m0; host = h; todo = s.todo; rest =
              s.rest; ready = s.ready; window = None; due = false; going =
              (negb m.pause); first = s.first; over = s.over; arrived =
              s.arrived; wt = s.wt }
       else let f = match s.first with
                    | Some z0 -> Some z0
                    | None -> Some e in
            if negb (Z.eqb s.todo Big_int_Z.unit_big_int)
            then { known = (Z.add s.known Big_int_Z.unit_big_int); device =
                   m0; host = h; todo =
                   (Z.sub s.todo Big_int_Z.unit_big_int); rest = s.rest;
                   ready = s.ready; window = None; due = false; going =
                   (negb m.pause); first = f; over = s.over; arrived =
                   s.arrived; wt = s.wt }
            else (match s.rest with
                  | [] ->
                    { known = (Z.add s.known Big_int_Z.unit_big_int);
                      device = Big_int_Z.zero_big_int; host =
                      Big_int_Z.zero_big_int; todo = Big_int_Z.zero_big_int;
                      rest = []; ready = s.ready; window = None; due = false;
                      going = false; first = f; over = (Some e); arrived =
                      s.arrived; wt = s.wt }
                  | p :: r ->
                    let (c, d) = p in
                    { known =
                    (Z.add (Z.add s.known Big_int_Z.unit_big_int) c.returns);
                    device = m0; host = h; todo = d; rest = r; ready =
                    (Z.add e c.duration); window = (Some c.handled); due =
                    (orders c.handled); going = false; first = f; over =
                    s.over; arrived = s.arrived; wt = s.wt })

(** val nexts :
    machine -> Big_int_Z.big_int -> state list -> act list -> state list **)

let rec nexts m e ss aa =
  match ss with
  | [] -> []
  | s :: ss0 ->
    (match aa with
     | [] -> []
     | a :: aa0 -> (next m e s a) :: (nexts m e ss0 aa0))

type objective =
| Makespan
| Busy
| Flow
| Weighted
| Ttft

(** val at_ : Big_int_Z.big_int option -> Big_int_Z.big_int **)

let at_ = function
| Some x -> x
| None -> Big_int_Z.zero_big_int

(** val sum : ('a1 -> Big_int_Z.big_int) -> 'a1 list -> Big_int_Z.big_int **)

let sum f l =
  fold_right (fun x y -> Z.add (f x) y) Big_int_Z.zero_big_int l

(** val value :
    objective -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let value o zz d =
  match o with
  | Makespan ->
    fold_right (fun s x -> Z.max (at_ s.over) x) Big_int_Z.zero_big_int zz
  | Busy -> d
  | Flow -> sum (fun s -> Z.sub (at_ s.over) s.arrived) zz
  | Weighted -> sum (fun s -> Z.mul s.wt (Z.sub (at_ s.over) s.arrived)) zz
  | Ttft -> sum (fun s -> Z.sub (at_ s.first) s.arrived) zz

type slo = { to_first : Big_int_Z.big_int option;
             to_last : Big_int_Z.big_int option;
             between : Big_int_Z.big_int option }

type goal =
| Whole of objective
| Tail of bool * int
| Late of slo list

(** val place :
    Big_int_Z.big_int -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec place x = function
| [] -> x :: []
| y :: l0 -> (Z.max x y) :: (place (Z.min x y) l0)

(** val exceeds : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool **)

let exceeds x = function
| Some l -> Z.ltb l x
| None -> false

(** val late : slo -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

let late q f c =
  (||) ((||) (exceeds f q.to_first) (exceeds c q.to_last))
    (exceeds (Z.sub c f) q.between)

(** val lates : slo list -> state list -> Big_int_Z.big_int **)

let rec lates qs zz =
  match qs with
  | [] -> Big_int_Z.zero_big_int
  | q :: qs0 ->
    (match zz with
     | [] -> Big_int_Z.zero_big_int
     | s :: zz0 ->
       Z.add
         (b2z
           (late q (Z.sub (at_ s.first) s.arrived)
             (Z.sub (at_ s.over) s.arrived))) (lates qs0 zz0))

(** val result :
    goal -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let result g zz d =
  match g with
  | Whole o -> value o zz d
  | Tail (f, n) ->
    nth n
      (fold_right place []
        (map (fun s -> Z.sub (at_ (if f then s.first else s.over)) s.arrived)
          zz)) Big_int_Z.zero_big_int
  | Late qs -> lates qs zz

(** val initial : instance -> state list **)

let initial i =
  map start_of i.requests

(** val is_h : handling -> handling option -> bool **)

let is_h k = function
| Some h ->
  (match h with
   | Preserve -> (match k with
                  | Preserve -> true
                  | _ -> false)
   | Discard -> (match k with
                 | Discard -> true
                 | _ -> false)
   | Swap -> (match k with
              | Swap -> true
              | _ -> false)
   | Free -> (match k with
              | Free -> true
              | _ -> false))
| None -> false

(** val some : 'a1 option -> bool **)

let some = function
| Some _ -> true
| None -> false

(** val callingb : Big_int_Z.big_int -> state -> bool **)

let callingb t0 s =
  (&&) (some s.window) (Z.ltb t0 s.ready)

(** val by_R9b : handling -> state -> bool **)

let by_R9b k s =
  (||) (is_h Free s.window) ((&&) s.due (is_h k s.window))

(** val withinb : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool **)

let withinb x = function
| Some l -> Z.leb x l
| None -> true

(** val nz : Big_int_Z.big_int -> bool **)

let nz x =
  negb (Z.eqb x Big_int_Z.zero_big_int)

(** val imp : bool -> bool -> bool **)

let imp a b =
  (||) (negb a) b

(** val r2b : Big_int_Z.big_int -> state -> act -> bool **)

let r2b t0 s a =
  imp (nz a.work) ((&&) (negb (some s.over)) (Z.leb s.ready t0))

(** val r3b : machine -> state -> act -> bool **)

let r3b m s a =
  imp (nz a.work)
    ((&&)
      ((&&) (Z.leb Big_int_Z.unit_big_int a.work)
        (Z.leb a.work (Z.sub s.known (m2 s a))))
      ((||) m.chunked (Z.eqb a.work (Z.sub s.known (m2 s a)))))

(** val r4b : state -> act -> bool **)

let r4b s a =
  imp (nz a.work)
    ((&&)
      ((&&) (Z.eqb (h2 s a) Big_int_Z.zero_big_int)
        (imp (nz a.drop) (by_R9b Discard s)))
      (imp (nz a.out) (by_R9b Swap s)))

(** val r5_pauseb : state -> act -> bool **)

let r5_pauseb s a =
  imp s.going ((||) ((||) (nz a.work) (nz a.drop)) (nz a.out))

(** val r8b : machine -> Big_int_Z.big_int -> state -> act -> bool **)

let r8b m t0 s a =
  (&&)
    ((&&)
      (imp (nz a.drop)
        ((||) (by_R9b Discard s) ((&&) m.evict (negb (callingb t0 s)))))
      (imp (nz a.out)
        ((||) (by_R9b Swap s) ((&&) m.evict (negb (callingb t0 s))))))
    ((||) m.partial
      ((&&)
        ((&&) (imp (nz a.drop) (Z.eqb a.drop (Z.add s.device s.host)))
          (imp (nz a.out) (Z.eqb a.out (m1 s a))))
        (imp (nz a.back) (Z.eqb a.back (Z.add (h1 s a) a.out)))))

(** val r9b : Big_int_Z.big_int -> state -> act -> bool **)

let r9b t0 s a =
  (&&)
    (imp s.due
      ((&&) (imp (is_h Discard s.window) (Z.eqb a.drop s.device))
        (imp (is_h Swap s.window) (Z.eqb a.out s.device))))
    (imp (callingb t0 s)
      (imp (is_h Preserve s.window) (Z.eqb a.back Big_int_Z.zero_big_int)))

(** val r10b : state -> act -> bool **)

let r10b s a =
  (&&)
    ((&&)
      ((&&)
        ((&&)
          ((&&) (Z.leb Big_int_Z.zero_big_int a.drop)
            (Z.leb a.drop (Z.add s.device s.host)))
          (Z.leb Big_int_Z.zero_big_int a.out)) (Z.leb a.out (m1 s a)))
      (Z.leb Big_int_Z.zero_big_int a.back))
    (Z.leb a.back (Z.add (h1 s a) a.out))

(** val localb : machine -> Big_int_Z.big_int -> state -> act -> bool **)

let localb m t0 s a =
  (&&)
    ((&&)
      ((&&)
        ((&&) ((&&) ((&&) (r2b t0 s a) (r3b m s a)) (r4b s a))
          (r5_pauseb s a)) (r8b m t0 s a)) (r9b t0 s a)) (r10b s a)

(** val fitsb : machine -> load -> bool **)

let fitsb m l =
  (&&)
    ((&&)
      ((&&)
        ((&&) (withinb l.tok m.batch_tokens)
          (withinb l.ptok m.prefill_tokens))
        (withinb (Z.add l.ndec l.npre) m.batch_requests))
      (withinb l.blk (option_map (fun m0 -> Z.div m0 m.block) m.memory)))
    (withinb l.hos m.host_memory)

(** val jointb : machine -> load -> bool **)

let jointb m l =
  (&&)
    ((&&) (fitsb m l)
      ((||) ((||) m.hybrid (Z.leb l.ndec Big_int_Z.zero_big_int))
        (Z.leb l.npre Big_int_Z.zero_big_int)))
    ((||) (Z.ltb Big_int_Z.zero_big_int (Z.add l.ndec l.npre))
      (Z.ltb Big_int_Z.zero_big_int (Z.add l.nout l.nin)))

(** val localsb :
    machine -> Big_int_Z.big_int -> state list -> act list -> bool **)

let rec localsb m t0 ss aa =
  match ss with
  | [] -> (match aa with
           | [] -> true
           | _ :: _ -> false)
  | s :: ss0 ->
    (match aa with
     | [] -> false
     | a :: aa0 -> (&&) (localb m t0 s a) (localsb m t0 ss0 aa0))

(** val runb :
    instance -> Big_int_Z.big_int -> state list -> batch list -> (state
    list * Big_int_Z.big_int) option **)

let rec runb i now ss = function
| [] -> Some (ss, Big_int_Z.zero_big_int)
| y :: bs0 ->
  let { start = t0; acts = aa } = y in
  let l = total i.mach ss aa in
  if (&&) ((&&) (Z.leb now t0) (localsb i.mach t0 ss aa)) (jointb i.mach l)
  then let d = lasts i.cost l in
       (match runb i (Z.add t0 d) (nexts i.mach (Z.add t0 d) ss aa) bs0 with
        | Some p -> let (zz, d0) = p in Some (zz, (Z.add d d0))
        | None -> None)
  else None

(** val referee :
    instance -> batch list -> goal -> Big_int_Z.big_int option **)

let referee i bs g =
  match runb i Big_int_Z.zero_big_int (initial i) bs with
  | Some p ->
    let (zz, d) = p in
    if forallb (fun s -> some s.over) zz then Some (result g zz d) else None
  | None -> None

(** val mark : Big_int_Z.big_int option -> Big_int_Z.big_int option **)

let mark o =
  option_map (fun _ -> Big_int_Z.zero_big_int) o

(** val norm : bool -> Big_int_Z.big_int -> state -> state **)

let norm timed0 now s =
  { known = s.known; device = s.device; host = s.host; todo = s.todo; rest =
    s.rest; ready =
    (if timed0
     then Z.max Big_int_Z.zero_big_int (Z.sub s.ready now)
     else Big_int_Z.zero_big_int); window = s.window; due = s.due; going =
    s.going; first = (mark s.first); over = (mark s.over); arrived =
    Big_int_Z.zero_big_int; wt = s.wt }

(** val end_of : objective -> state -> Big_int_Z.big_int option **)

let end_of o s =
  match o with
  | Ttft -> s.first
  | _ -> s.over

(** val weigh : objective -> state -> Big_int_Z.big_int **)

let weigh o s =
  match o with
  | Weighted -> s.wt
  | _ -> Big_int_Z.unit_big_int

(** val rate : objective -> state list -> Big_int_Z.big_int **)

let rate o ss =
  match o with
  | Makespan -> b2z (existsb (fun s -> negb (some s.over)) ss)
  | Busy -> Big_int_Z.zero_big_int
  | _ -> sum (fun s -> if0 (negb (some (end_of o s))) (weigh o s)) ss

(** val fee :
    objective -> state list -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let fee o ss d =
  match o with
  | Busy -> d
  | _ -> Z.mul (rate o ss) d

(** val timed : objective -> bool **)

let timed = function
| Busy -> false
| _ -> true

module PositiveMap =
 struct
  type key = Big_int_Z.big_int

  type 'a tree =
  | Leaf
  | Node of 'a tree * 'a option * 'a tree

  type 'a t = 'a tree

  (** val empty : 'a1 t **)

  let empty =
    Leaf

  (** val find : key -> 'a1 t -> 'a1 option **)

  let rec find i = function
  | Leaf -> None
  | Node (l, o, r) ->
    ((fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
       (fun ii -> find ii r)
       (fun ii -> find ii l)
       (fun _ -> o)
       i)

  (** val add : key -> 'a1 -> 'a1 t -> 'a1 t **)

  let rec add i v = function
  | Leaf ->
    ((fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
       (fun ii -> Node (Leaf, None, (add ii v Leaf)))
       (fun ii -> Node ((add ii v Leaf), None, Leaf))
       (fun _ -> Node (Leaf, (Some v), Leaf))
       i)
  | Node (l, o, r) ->
    ((fun f2p1 f2p f1 p ->
  if Big_int_Z.le_big_int p Big_int_Z.unit_big_int then f1 () else
  let (q,r) = Big_int_Z.quomod_big_int p (Big_int_Z.big_int_of_int 2) in
  if Big_int_Z.eq_big_int r Big_int_Z.zero_big_int then f2p q else f2p1 q)
       (fun ii -> Node (l, o, (add ii v r)))
       (fun ii -> Node ((add ii v l), o, r))
       (fun _ -> Node (l, (Some v), r))
       i)
 end

(** val upto : Big_int_Z.big_int -> Big_int_Z.big_int list **)

let upto n =
  map Z.of_nat (seq (Stdlib.Int.succ 0) (Z.to_nat n))

(** val cand : bool -> Big_int_Z.big_int -> Big_int_Z.big_int list **)

let cand all x =
  Big_int_Z.zero_big_int :: (if Z.leb x Big_int_Z.zero_big_int
                             then []
                             else if all then upto x else x :: [])

(** val candidates : machine -> state -> act list **)

let candidates m s =
  flat_map (fun d ->
    flat_map (fun o ->
      flat_map (fun i ->
        map (fun w -> { work = w; drop = d; out = o; back = i })
          (cand m.chunked
            (Z.sub s.known
              (m2 s { work = Big_int_Z.zero_big_int; drop = d; out = o;
                back = i }))))
        (cand m.partial
          (Z.add
            (h1 s { work = Big_int_Z.zero_big_int; drop = d; out =
              Big_int_Z.zero_big_int; back = Big_int_Z.zero_big_int }) o)))
      (cand m.partial
        (m1 s { work = Big_int_Z.zero_big_int; drop = d; out =
          Big_int_Z.zero_big_int; back = Big_int_Z.zero_big_int })))
    (cand m.partial (Z.add s.device s.host))

(** val opts : machine -> state -> (act * load) list **)

let opts m s =
  map (fun a -> (a, (load_of m s a)))
    (filter (fun a ->
      (&&) (localb m Big_int_Z.zero_big_int s a) (fitsb m (load_of m s a)))
      (candidates m s))

(** val handling_eqb : handling -> handling -> bool **)

let handling_eqb x y =
  match x with
  | Preserve -> (match y with
                 | Preserve -> true
                 | _ -> false)
  | Discard -> (match y with
                | Discard -> true
                | _ -> false)
  | Swap -> (match y with
             | Swap -> true
             | _ -> false)
  | Free -> (match y with
             | Free -> true
             | _ -> false)

(** val opt_eqb : ('a1 -> 'a1 -> bool) -> 'a1 option -> 'a1 option -> bool **)

let opt_eqb eqb0 x y =
  match x with
  | Some a -> (match y with
               | Some b -> eqb0 a b
               | None -> false)
  | None -> (match y with
             | Some _ -> false
             | None -> true)

(** val list_eqb : ('a1 -> 'a1 -> bool) -> 'a1 list -> 'a1 list -> bool **)

let rec list_eqb eqb0 x y =
  match x with
  | [] -> (match y with
           | [] -> true
           | _ :: _ -> false)
  | a :: x0 ->
    (match y with
     | [] -> false
     | b :: y0 -> (&&) (eqb0 a b) (list_eqb eqb0 x0 y0))

(** val seg_eqb :
    (call * Big_int_Z.big_int) -> (call * Big_int_Z.big_int) -> bool **)

let seg_eqb x y =
  (&&)
    ((&&)
      ((&&) (Z.eqb (fst x).duration (fst y).duration)
        (Z.eqb (fst x).returns (fst y).returns))
      (handling_eqb (fst x).handled (fst y).handled)) (Z.eqb (snd x) (snd y))

(** val state_eqb : state -> state -> bool **)

let state_eqb x y =
  (&&)
    ((&&)
      ((&&)
        ((&&)
          ((&&)
            ((&&)
              ((&&)
                ((&&)
                  ((&&)
                    ((&&)
                      ((&&)
                        ((&&) (Z.eqb x.device y.device)
                          (Z.eqb x.known y.known)) (Z.eqb x.host y.host))
                      (Z.eqb x.todo y.todo)) (Z.eqb x.ready y.ready))
                  (list_eqb seg_eqb x.rest y.rest))
                (opt_eqb handling_eqb x.window y.window)) (eqb x.due y.due))
            (eqb x.going y.going)) (opt_eqb Z.eqb x.first y.first))
        (opt_eqb Z.eqb x.over y.over)) (Z.eqb x.arrived y.arrived))
    (Z.eqb x.wt y.wt)

type entry = { clock : Big_int_Z.big_int; states : state list;
               mark_of : Big_int_Z.big_int }

(** val same : Big_int_Z.big_int -> state list -> entry -> bool **)

let same k ss e =
  (&&) (Z.eqb e.clock k) (list_eqb state_eqb e.states ss)

(** val pick :
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list
    PositiveMap.t -> Big_int_Z.big_int -> state list -> Big_int_Z.big_int
    option **)

let pick hash m k ss =
  match PositiveMap.find (hash k ss) m with
  | Some l -> option_map (fun e -> e.mark_of) (find (same k ss) l)
  | None -> None

(** val put :
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list
    PositiveMap.t -> entry -> entry list PositiveMap.t **)

let put hash m e =
  let h = hash e.clock e.states in
  PositiveMap.add h
    (e :: (match PositiveMap.find h m with
           | Some l -> l
           | None -> [])) m

(** val build :
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> entry list ->
    entry list PositiveMap.t **)

let build hash es =
  fold_left (put hash) es PositiveMap.empty

type row = { pblk : Big_int_Z.big_int; phos : Big_int_Z.big_int;
             ptk : Big_int_Z.big_int; ppt : Big_int_Z.big_int;
             prq : Big_int_Z.big_int }

(** val zero : row **)

let zero =
  { pblk = Big_int_Z.zero_big_int; phos = Big_int_Z.zero_big_int; ptk =
    Big_int_Z.zero_big_int; ppt = Big_int_Z.zero_big_int; prq =
    Big_int_Z.zero_big_int }

(** val pay : row -> load -> Big_int_Z.big_int **)

let pay r l =
  Z.add
    (Z.add
      (Z.add (Z.add (Z.mul r.pblk l.blk) (Z.mul r.phos l.hos))
        (Z.mul r.ptk l.tok)) (Z.mul r.ppt l.ptok))
    (Z.mul r.prq (Z.add l.ndec l.npre))

(** val lim : Big_int_Z.big_int option -> Big_int_Z.big_int **)

let lim = function
| Some x -> x
| None -> Big_int_Z.zero_big_int

(** val supply : machine -> row -> Big_int_Z.big_int **)

let supply m r =
  Z.add
    (Z.add
      (Z.add
        (Z.add
          (Z.mul r.pblk
            (lim (option_map (fun m0 -> Z.div m0 m.block) m.memory)))
          (Z.mul r.phos (lim m.host_memory)))
        (Z.mul r.ptk (lim m.batch_tokens)))
      (Z.mul r.ppt (lim m.prefill_tokens)))
    (Z.mul r.prq (lim m.batch_requests))

(** val priced : Big_int_Z.big_int -> Big_int_Z.big_int option -> bool **)

let priced p l =
  (&&) (Z.leb Big_int_Z.zero_big_int p)
    ((||) (some l) (Z.eqb p Big_int_Z.zero_big_int))

(** val row_ok : machine -> row -> bool **)

let row_ok m r =
  (&&)
    ((&&)
      ((&&) ((&&) (priced r.pblk m.memory) (priced r.phos m.host_memory))
        (priced r.ptk m.batch_tokens)) (priced r.ppt m.prefill_tokens))
    (priced r.prq m.batch_requests)

(** val held : machine -> state -> load **)

let held m s =
  { tok = Big_int_Z.zero_big_int; ptok = Big_int_Z.zero_big_int; gen =
    Big_int_Z.zero_big_int; ndec = Big_int_Z.zero_big_int; npre =
    Big_int_Z.zero_big_int; dkv = Big_int_Z.zero_big_int; pkv =
    Big_int_Z.zero_big_int; pairs = Big_int_Z.zero_big_int; otok =
    Big_int_Z.zero_big_int; itok = Big_int_Z.zero_big_int; nout =
    Big_int_Z.zero_big_int; nin = Big_int_Z.zero_big_int; blk =
    (ceil_div (Z.max Big_int_Z.zero_big_int s.device) m.block); hos =
    (Z.max Big_int_Z.zero_big_int s.host) }

(** val all_held : machine -> state list -> load **)

let all_held m ss =
  fold_right (fun s l -> plus (held m s) l) none ss

(** val unit_cost : function0 list -> bool **)

let unit_cost fs =
  forallb (fun f ->
    (&&)
      ((&&)
        ((&&)
          ((&&)
            ((&&) (Z.leb Big_int_Z.unit_big_int f.divisor)
              (Z.leb Big_int_Z.zero_big_int f.busy))
            (Z.leb Big_int_Z.zero_big_int f.any_decode))
          (Z.leb Big_int_Z.zero_big_int f.any_prefill))
        (Z.leb (Z.add (Z.add f.busy f.any_decode) f.any_prefill) f.divisor))
      (forallb (Z.eqb Big_int_Z.zero_big_int)
        (f.tokens :: (f.above :: (f.generated :: (f.decode_requests :: (f.prefill_requests :: (f.decode_kv :: (f.prefill_kv :: (f.prefill_pairs :: (f.swap_out_tokens :: (f.swap_in_tokens :: (f.swap_outs :: (f.swap_ins :: []))))))))))))))
    fs

(** val insert :
    (state -> state -> bool) -> state -> state list -> state list **)

let rec insert leb0 s ss = match ss with
| [] -> s :: []
| x :: xs -> if leb0 s x then s :: ss else x :: (insert leb0 s xs)

(** val sort : (state -> state -> bool) -> state list -> state list **)

let sort leb0 ss =
  fold_right (insert leb0) [] ss

(** val steady : instance -> objective -> bool **)

let steady i o =
  (&&) (timed o) (unit_cost i.cost)

(** val urate : objective -> state -> Big_int_Z.big_int **)

let urate o s =
  match o with
  | Makespan -> Big_int_Z.zero_big_int
  | Busy -> Big_int_Z.zero_big_int
  | _ -> if0 (negb (some (end_of o s))) (weigh o s)

type 'a search_tree =
| Tip
| Fork of 'a search_tree * int * 'a * 'a search_tree

(** val seek : int -> 'a1 search_tree -> 'a1 option **)

let rec seek n = function
| Tip -> None
| Fork (l, k, x, h) ->
  if (=) n k then Some x else if Nat.ltb n k then seek n l else seek n h

(** val each_of : ('a1 -> 'a2) -> 'a1 search_tree -> 'a2 search_tree **)

let rec each_of f = function
| Tip -> Tip
| Fork (l, k, x, h) -> Fork ((each_of f l), k, (f x), (each_of f h))

(** val items : 'a1 search_tree -> 'a1 list -> 'a1 list **)

let rec items t0 more0 =
  match t0 with
  | Tip -> more0
  | Fork (l, _, x, h) -> items l (x :: (items h more0))

type node = { idle : int; ended : bool; rated : Big_int_Z.big_int;
              hold : load; edges : (int * load) list;
              better : int search_tree; kinds : int list }

(** val far : Big_int_Z.big_int **)

let far =
  Z.pow (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)
    (Big_int_Z.mult_int_big_int 2
    ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
    (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
    Big_int_Z.unit_big_int)))))

(** val minus :
    Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec minus xs ys =
  match xs with
  | [] -> []
  | x :: xs0 ->
    (match ys with
     | [] -> []
     | y :: ys0 -> (Z.sub x y) :: (minus xs0 ys0))

(** val minimum :
    Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec minimum xs ys =
  match xs with
  | [] -> []
  | x :: xs0 ->
    (match ys with
     | [] -> []
     | y :: ys0 -> (Z.min x y) :: (minimum xs0 ys0))

(** val place_in : int -> int list -> int list **)

let rec place_in n ns = match ns with
| [] -> n :: []
| x :: xs ->
  if ((<=) : int -> int -> bool) n x then n :: ns else x :: (place_in n xs)

(** val arrange : int list -> int list **)

let arrange ns =
  fold_left (fun l n -> place_in n l) ns []

(** val dead : node **)

let dead =
  { idle = 0; ended = false; rated = Big_int_Z.zero_big_int; hold = none;
    edges = []; better = Tip; kinds = [] }

(** val at_node : node search_tree -> int -> node **)

let at_node nodes n =
  match seek n nodes with
  | Some x -> x
  | None -> dead

(** val name :
    (state * int) list search_tree -> (state -> int) -> state -> int option **)

let name names hash s =
  match seek (hash s) names with
  | Some l -> option_map snd (find (fun p -> state_eqb (fst p) s) l)
  | None -> None

(** val as_good : node search_tree -> int -> int -> bool **)

let as_good nodes n n' =
  (||) ((=) n n')
    (match seek n (at_node nodes n').better with
     | Some m -> (=) n m
     | None -> false)

(** val for_state :
    node search_tree -> (state * int) list search_tree -> (state -> int) ->
    int -> state -> bool **)

let for_state nodes names hash n s =
  match name names hash s with
  | Some n' -> as_good nodes n n'
  | None -> false

(** val act_of : load -> Big_int_Z.big_int **)

let act_of l =
  Z.add (Z.add l.ndec l.npre) (Z.add l.nout l.nin)

(** val mostb : load -> load -> bool **)

let mostb l l' =
  (&&)
    ((&&)
      ((&&) ((&&) (Z.leb l.tok l'.tok) (Z.leb l.ptok l'.ptok))
        (Z.leb (Z.add l.ndec l.npre) (Z.add l'.ndec l'.npre)))
      (Z.leb l.blk l'.blk)) (Z.leb l.hos l'.hos)

(** val answers : instance -> bool -> load -> load -> bool **)

let answers i strict =
  let m = i.mach in
  (fun e l ->
  (&&)
    ((&&) (mostb e l)
      ((||) m.hybrid ((&&) (Z.leb e.ndec l.ndec) (Z.leb e.npre l.npre))))
    ((||) (negb strict) (Z.leb (act_of l) (act_of e))))

(** val rests : node -> (int * load) list **)

let rests x =
  (x.idle, x.hold) :: x.edges

(** val subset : int list -> int list -> bool **)

let subset xs ys =
  forallb (fun x -> existsb ((=) x) ys) xs

(** val simulates :
    instance -> bool -> (int -> int -> bool) -> node -> node -> bool **)

let simulates i strict good x y =
  (&&)
    ((&&)
      ((&&) ((&&) (imp x.ended y.ended) (Z.leb y.rated x.rated))
        (good y.idle x.idle))
      (existsb (fun r -> (&&) (mostb (snd r) x.hold) (good (fst r) x.idle))
        (rests y)))
    (forallb (fun e ->
      existsb (fun e' ->
        (&&) (answers i strict (snd e') (snd e)) (good (fst e') (fst e)))
        y.edges) x.edges)

(** val node_ok : instance -> bool -> node search_tree -> node -> bool **)

let node_ok i strict nodes x =
  (&&)
    ((&&)
      ((&&)
        ((&&) (Z.leb Big_int_Z.zero_big_int x.rated)
          (forallb (mostb none) (x.hold :: (map snd x.edges))))
        (forallb (fun n -> subset x.kinds (at_node nodes n).kinds)
          (x.idle :: (app (map fst x.edges) (items x.better [])))))
      ((||) (negb x.ended)
        (forallb (fun n -> (at_node nodes n).ended)
          (x.idle :: (map fst x.edges)))))
    (forallb (fun n ->
      simulates i strict (as_good nodes) x (at_node nodes n))
      (items x.better []))

(** val name_ok :
    instance -> objective -> bool -> node search_tree -> (state * int) list
    search_tree -> (state -> int) -> (state * int) -> bool **)

let name_ok i o strict nodes names hash =
  let m = i.mach in
  (fun p ->
  let s = fst p in
  let x = at_node nodes (snd p) in
  (&&)
    ((&&)
      ((&&) ((&&) (imp (some s.over) x.ended) (Z.leb x.rated (urate o s)))
        (for_state nodes names hash x.idle
          (norm true Big_int_Z.unit_big_int s)))
      (existsb (fun r ->
        (&&) (mostb (snd r) (held m s))
          (for_state nodes names hash (fst r)
            (norm true Big_int_Z.unit_big_int s))) (rests x)))
    (forallb (fun al ->
      let s' =
        norm true Big_int_Z.unit_big_int
          (next m Big_int_Z.unit_big_int s (fst al))
      in
      existsb (fun e ->
        (&&) (answers i strict (snd e) (snd al))
          (for_state nodes names hash (fst e) s')) x.edges) (opts m s)))

(** val usable : instance -> bool -> load -> bool **)

let usable i strict =
  let m = i.mach in
  (fun l ->
  (&&)
    ((&&) (fitsb m l)
      ((||) ((||) m.hybrid (Z.leb l.ndec Big_int_Z.zero_big_int))
        (Z.leb l.npre Big_int_Z.zero_big_int)))
    ((||) (negb strict) (Z.ltb Big_int_Z.zero_big_int (act_of l))))

(** val latest : Big_int_Z.big_int list -> node -> Big_int_Z.big_int **)

let latest l x =
  fold_right (fun k d -> Z.max (nth k l far) d) Big_int_Z.zero_big_int x.kinds

(** val overdue :
    Big_int_Z.big_int list option -> Big_int_Z.big_int -> node -> bool **)

let overdue deadlines k x =
  match deadlines with
  | Some l ->
    (&&) (Z.ltb Big_int_Z.zero_big_int x.rated) (Z.leb (latest l x) k)
  | None -> false

type pot = Big_int_Z.big_int search_tree * Big_int_Z.big_int

(** val val0 : pot -> int -> Big_int_Z.big_int **)

let val0 p n =
  match seek n (fst p) with
  | Some v -> v
  | None -> Big_int_Z.zero_big_int

(** val value_at :
    Big_int_Z.big_int -> Big_int_Z.big_int list option -> Big_int_Z.big_int
    -> row -> pot -> node -> Big_int_Z.big_int **)

let value_at scale deadlines k r p x =
  if x.ended
  then Big_int_Z.zero_big_int
  else if overdue deadlines k x
       then far
       else Z.min far
              (Z.add (Z.mul scale x.rated)
                (fold_right (fun e m ->
                  Z.min (Z.add (pay r (snd e)) (val0 p (fst e))) m)
                  (Z.add (pay r x.hold) (val0 p x.idle)) x.edges))

type step = row * pot

(** val off : step **)

let off =
  (zero, (Tip, Big_int_Z.zero_big_int))

(** val layers_of :
    instance -> Big_int_Z.big_int -> node search_tree -> Big_int_Z.big_int
    list option -> Big_int_Z.big_int -> row -> row list -> step list **)

let layers_of i scale nodes deadlines =
  let m = i.mach in
  let rec layers_of0 k before = function
  | [] -> (before, (snd off)) :: []
  | r :: rows0 ->
    let more0 = layers_of0 (Z.add k Big_int_Z.unit_big_int) r rows0 in
    let p = snd (hd off more0) in
    (before, ((each_of (value_at scale deadlines k r p) nodes),
    (Z.add (supply m r) (snd p)))) :: more0
  in layers_of0

(** val tightens :
    Big_int_Z.big_int -> Big_int_Z.big_int -> node search_tree ->
    Big_int_Z.big_int list option -> pot -> int list -> Big_int_Z.big_int
    list -> bool **)

let tightens scale target nodes deadlines p start0 l =
  let all = Z.sub (sum (val0 p) start0) (snd p) in
  forallb (fun n ->
    let x = at_node nodes n in
    (||)
      (match deadlines with
       | Some l' -> Z.leb (latest l' x) (latest l x)
       | None -> false)
      (Z.leb target
        (Z.add (Z.sub all (val0 p n))
          (Z.mul (Z.mul scale x.rated)
            (Z.add (latest l x) Big_int_Z.unit_big_int))))) start0

type opts_of =
  Big_int_Z.big_int list * ((int * load) * Big_int_Z.big_int list) list

type layer = { entries : (int list * Big_int_Z.big_int) list search_tree;
               steer : (int list -> int list option);
               guide : (int list -> int); used : int search_tree list }

(** val found :
    (int list -> int) -> layer -> int list -> Big_int_Z.big_int option **)

let found hashes l nn =
  match seek (hashes nn) l.entries with
  | Some l0 -> option_map snd (find (fun e -> list_eqb (=) (fst e) nn) l0)
  | None -> None

(** val held_at :
    (int list -> int) -> layer -> int list -> Big_int_Z.big_int -> bool **)

let held_at hashes l nn b =
  match found hashes l nn with
  | Some b' -> Z.leb b' b
  | None -> false

(** val all_as_good : node search_tree -> int list -> int list -> bool **)

let rec all_as_good nodes nn' nn =
  match nn' with
  | [] -> (match nn with
           | [] -> true
           | _ :: _ -> false)
  | n' :: nn'0 ->
    (match nn with
     | [] -> false
     | n :: nn0 -> (&&) (as_good nodes n' n) (all_as_good nodes nn'0 nn0))

(** val settled :
    Big_int_Z.big_int -> node search_tree -> (int list -> int) -> step list
    -> layer -> int list -> Big_int_Z.big_int -> bool **)

let settled target nodes hashes ps l nn b =
  (||)
    ((||) (Z.leb target b)
      (let nn0 = arrange nn in
       (||) (held_at hashes l nn0 b)
         (match l.steer nn0 with
          | Some nn' ->
            (&&) (all_as_good nodes nn' nn0)
              (held_at hashes l (arrange nn') b)
          | None -> false)))
    (existsb (fun p ->
      Z.leb target (Z.add b (Z.sub (sum (val0 (snd p)) nn) (snd (snd p)))))
      ps)

(** val rate_of :
    objective -> node search_tree -> int list -> Big_int_Z.big_int **)

let rate_of o nodes nn =
  match o with
  | Makespan -> b2z (existsb (fun n -> negb (at_node nodes n).ended) nn)
  | _ -> sum (fun n -> (at_node nodes n).rated) nn

(** val each :
    instance -> bool -> ((int * load) * Big_int_Z.big_int list) list list ->
    load -> int list -> Big_int_Z.big_int list -> int list list -> int list
    list **)

let each i strict =
  let m = i.mach in
  let rec each0 oo l nn slack more0 =
    match oo with
    | [] -> if usable i strict l then nn :: more0 else more0
    | os :: oo0 ->
      fold_right (fun x more1 ->
        let slack0 = minus slack (snd x) in
        if existsb (fun y -> Z.leb y Big_int_Z.zero_big_int) slack0
        then more1
        else let l0 = plus l (snd (fst x)) in
             if fitsb m l0
             then each0 oo0 l0 ((fst (fst x)) :: nn) slack0 more1
             else more1) more0 os
  in each0

(** val tried : step -> (int * load) -> Big_int_Z.big_int **)

let tried p e =
  Z.add (pay (fst p) (snd e)) (val0 (snd p) (fst e))

(** val options : node search_tree -> step list -> int -> opts_of **)

let options nodes ps n =
  let tried0 =
    map (fun e -> (e, (map (fun p -> tried p e) ps))) (at_node nodes n).edges
  in
  let low =
    fold_right (fun x low -> minimum (snd x) low) (map (fun _ -> far) ps)
      tried0
  in
  (low, (map (fun x -> ((fst x), (minus (snd x) low))) tried0))

(** val slack_of :
    instance -> Big_int_Z.big_int -> step list -> Big_int_Z.big_int ->
    opts_of list -> Big_int_Z.big_int list **)

let slack_of i target =
  let m = i.mach in
  (fun ps b chosen ->
  fold_right (fun c x -> minus x (fst c))
    (map (fun p ->
      Z.sub (Z.add (Z.add target (supply m (fst p))) (snd (snd p))) b) ps)
    chosen)

(** val table :
    node search_tree -> step list -> int search_tree -> step
    list * (int * opts_of) search_tree **)

let table nodes ps ns =
  (ps, (each_of (fun n -> (n, (options nodes ps n))) ns))

(** val options_in :
    node search_tree -> (step list * (int * opts_of) search_tree) -> int ->
    opts_of **)

let options_in nodes t0 n =
  match seek n (snd t0) with
  | Some p ->
    let (n', c) = p in if (=) n' n then c else options nodes (fst t0) n
  | None -> options nodes (fst t0) n

(** val tables :
    node search_tree -> step list -> layer -> (step list * (int * opts_of)
    search_tree) list **)

let tables nodes ps l =
  map (fun pu ->
    table nodes ((zero, (snd (fst pu))) :: ((fst pu) :: [])) (snd pu))
    (combine ps l.used)

(** val follow :
    instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool
    -> node search_tree -> (step list * (int * opts_of) search_tree) -> (int
    list * Big_int_Z.big_int) -> Big_int_Z.big_int * int list list **)

let follow i o scale target strict nodes t0 e =
  let nn = fst e in
  let b = Z.add (snd e) (Z.mul scale (rate_of o nodes nn)) in
  let chosen = map (options_in nodes t0) nn in
  (b,
  ((map (fun n -> (at_node nodes n).idle) nn) :: (each i strict
                                                   (map snd chosen) none []
                                                   (slack_of i target
                                                     (fst t0) b chosen) [])))

(** val all_ended : node search_tree -> int list -> bool **)

let all_ended nodes nn =
  forallb (fun n -> (at_node nodes n).ended) nn

(** val settle :
    Big_int_Z.big_int -> node search_tree -> (int list -> int) -> step list
    -> layer -> (Big_int_Z.big_int * int list list) -> bool **)

let settle target nodes hashes ps l x =
  forallb (fun nn -> settled target nodes hashes ps l nn (fst x)) (snd x)

type vector = { since : int; span : int; steps : step list }

(** val now_of : vector list -> step list **)

let now_of vs =
  flat_map (fun v ->
    (fun fO fS n -> if n=0 then fO () else fS (n-1))
      (fun _ ->
      (fun fO fS n -> if n=0 then fO () else fS (n-1))
        (fun _ -> [])
        (fun _ -> (hd off v.steps) :: [])
        v.span)
      (fun _ -> [])
      v.since) vs

(** val later : vector list -> vector list **)

let later vs =
  map (fun v ->
    (fun fO fS n -> if n=0 then fO () else fS (n-1))
      (fun _ -> { since = 0; span = (pred v.span); steps =
      (tl v.steps) })
      (fun n -> { since = n; span = v.span; steps = v.steps })
      v.since) vs

(** val closed :
    instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool
    -> node search_tree -> (int list -> int) -> (vector list ->
    (Big_int_Z.big_int * int list list) list list -> layer) -> int -> vector
    list -> layer -> bool **)

let rec closed i o scale target strict nodes hashes choose ticks0 vs l =
  match items l.entries [] with
  | [] -> true
  | l0 :: l1 ->
    ((fun fO fS n -> if n=0 then fO () else fS (n-1))
       (fun _ -> false)
       (fun ticks1 ->
       let vs0 = later vs in
       let ps = now_of vs0 in
       let tt = tables nodes ps l in
       let next0 =
         items
           (each_of
             (map (fun e ->
               follow i o scale target strict nodes
                 (nth (l.guide (fst e)) tt ([], Tip)) e)) l.entries) []
       in
       let l' = choose vs0 next0 in
       (&&)
         ((&&)
           (forallb
             (forallb (fun e ->
               (||) (negb (all_ended nodes (fst e))) (Z.leb target (snd e))))
             (l0 :: l1))
           (forallb (forallb (settle target nodes hashes ps l')) next0))
         (closed i o scale target strict nodes hashes choose ticks1 vs0 l'))
       ticks0)

(** val active : act -> bool **)

let active a =
  (||) ((||) ((||) (nz a.work) (nz a.drop)) (nz a.out)) (nz a.back)

(** val every :
    machine -> (load -> act list -> bool) -> (act * load) list list -> load
    -> act list -> bool **)

let rec every m f os l aa =
  match os with
  | [] -> f l aa
  | o :: os0 ->
    forallb (fun x ->
      let l0 = plus l (snd x) in
      if fitsb m l0 then every m f os0 l0 ((fst x) :: aa) else true) o

(** val waits : state list -> Big_int_Z.big_int list **)

let waits ss =
  nodup Z.eq_dec
    (filter (fun w -> Z.ltb Big_int_Z.zero_big_int w)
      (map (fun s -> s.ready) ss))

(** val lag : state list -> state list -> Big_int_Z.big_int **)

let lag kk ss =
  fold_right (fun x -> Z.max (Z.sub (fst x).ready (snd x).ready))
    Big_int_Z.zero_big_int (combine kk ss)

(** val alike : state -> state -> bool **)

let alike p s =
  state_eqb p { known = s.known; device = s.device; host = s.host; todo =
    s.todo; rest = s.rest; ready = p.ready; window = s.window; due = s.due;
    going = s.going; first = s.first; over = s.over; arrived = s.arrived;
    wt = s.wt }

(** val bounded :
    objective -> Big_int_Z.big_int -> (Big_int_Z.big_int -> state list ->
    Big_int_Z.big_int) -> (state list -> Big_int_Z.big_int -> state list) ->
    entry list PositiveMap.t -> state list -> Big_int_Z.big_int -> bool **)

let bounded o target hash steer0 km ss b =
  (||) (Z.leb target b)
    (let kk = steer0 ss b in
     match pick hash km Big_int_Z.zero_big_int kk with
     | Some b' ->
       (&&) (list_eqb alike kk ss)
         (Z.leb (Z.add b' (Z.mul (rate o kk) (lag kk ss))) b)
     | None -> false)

(** val batch_ok :
    instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
    Big_int_Z.big_int -> state list) -> entry list PositiveMap.t ->
    Big_int_Z.big_int -> state list -> Big_int_Z.big_int -> load -> act list
    -> bool **)

let batch_ok i o target leb0 hash steer0 km =
  let m = i.mach in
  (fun w ss b l aa ->
  (||) (negb (jointb m l))
    (let aa0 = rev aa in
     let d = lasts i.cost l in
     (||)
       (negb
         ((||) (Z.eqb w Big_int_Z.zero_big_int)
           (existsb (fun x -> (&&) (active (snd x)) (Z.eqb (fst x).ready w))
             (combine ss aa0))))
       (let ss0 = map (norm (timed o) w) ss in
        bounded o target hash steer0 km
          (sort leb0 (map (norm (timed o) d) (nexts m d ss0 aa0)))
          (Z.add b (fee o ss0 d)))))

(** val kept_ok :
    instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
    Big_int_Z.big_int -> state list) -> entry list PositiveMap.t -> state
    list -> Big_int_Z.big_int -> bool **)

let kept_ok i o target leb0 hash steer0 km =
  let m = i.mach in
  (fun ss b ->
  (||) (Z.leb target b)
    ((&&) (negb (forallb (fun s -> some s.over) ss))
      (forallb (fun w ->
        let b0 = Z.add b (Z.mul (rate o ss) w) in
        (||) (Z.leb target b0)
          (every m (batch_ok i o target leb0 hash steer0 km w ss b0)
            (map (opts m) (map (norm (timed o) w) ss)) none []))
        (Big_int_Z.zero_big_int :: (waits ss)))))

(** val origin :
    instance -> objective -> (state -> state -> bool) -> state list **)

let origin i o leb0 =
  sort leb0 (map (norm (timed o) Big_int_Z.zero_big_int) (initial i))

(** val offset : instance -> objective -> Big_int_Z.big_int **)

let offset i o = match o with
| Makespan -> Big_int_Z.zero_big_int
| Busy -> Big_int_Z.zero_big_int
| _ -> sum (fun s -> Z.mul (weigh o s) s.arrived) (initial i)

(** val target_of :
    instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let target_of i o bound scale =
  Z.add
    (Z.mul scale (Z.sub (Z.add bound (offset i o)) Big_int_Z.unit_big_int))
    Big_int_Z.unit_big_int

type price = { from : int; ticks : int; costs : row list }

(** val latest_of :
    Big_int_Z.big_int list option -> (row list * Big_int_Z.big_int list) list
    -> Big_int_Z.big_int list option **)

let latest_of first0 dd =
  fold_left (fun _ d -> Some (snd d)) dd first0

(** val steps_of :
    instance -> Big_int_Z.big_int -> node search_tree -> Big_int_Z.big_int
    list option -> price -> step list **)

let steps_of i scale nodes deadlines p =
  layers_of i scale nodes deadlines (Z.of_nat p.from) zero p.costs

(** val narrowed :
    instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> node search_tree ->
    int list -> Big_int_Z.big_int list option -> (row
    list * Big_int_Z.big_int list) list -> bool **)

let rec narrowed i scale target nodes start0 deadlines = function
| [] -> true
| y :: dd0 ->
  let (rows, d) = y in
  (&&)
    ((&&) (forallb (row_ok i.mach) rows)
      (tightens scale target nodes deadlines
        (snd
          (hd off
            (layers_of i scale nodes deadlines Big_int_Z.zero_big_int zero
              rows))) start0 d))
    (narrowed i scale target nodes start0 (Some d) dd0)

(** val start_nodes :
    instance -> (state * int) list search_tree -> (state -> int) -> int list **)

let start_nodes i names hash =
  map (fun s ->
    match name names hash (norm true Big_int_Z.zero_big_int s) with
    | Some n -> n
    | None -> 0) (initial i)

(** val no_run :
    instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool
    -> node search_tree -> (state * int) list search_tree -> (state -> int)
    -> (int list -> int) -> Big_int_Z.big_int list option -> price list ->
    (row list * Big_int_Z.big_int list) list -> int -> (vector list ->
    (Big_int_Z.big_int * int list list) list list -> layer) -> bool **)

let no_run i o scale target strict nodes names hash hashes first0 prices0 dd depth choose =
  (&&)
    ((&&)
      ((&&)
        ((&&)
          ((&&)
            ((&&)
              ((&&)
                ((&&)
                  ((&&)
                    ((&&) (Z.ltb Big_int_Z.zero_big_int scale)
                      (Z.leb Big_int_Z.unit_big_int i.mach.block))
                    (forallb (fun r -> Z.leb Big_int_Z.zero_big_int r.weight)
                      i.requests))
                  (fitsb i.mach (all_held i.mach (initial i)))) (steady i o))
              (forallb (node_ok i strict nodes) (items nodes [])))
            (forallb (forallb (name_ok i o strict nodes names hash))
              (items names [])))
          (forallb (fun p -> forallb (row_ok i.mach) p.costs) prices0))
        (forallb (fun s ->
          some (name names hash (norm true Big_int_Z.zero_big_int s)))
          (initial i)))
      (narrowed i scale target nodes (start_nodes i names hash) first0 dd))
    (let vs =
       map (fun p -> { since = p.from; span = p.ticks; steps =
         (steps_of i scale nodes (latest_of first0 dd) p) }) prices0
     in
     let l =
       choose vs (((Big_int_Z.zero_big_int,
         ((start_nodes i names hash) :: [])) :: []) :: [])
     in
     (&&)
       (settled target nodes hashes (now_of vs) l (start_nodes i names hash)
         Big_int_Z.zero_big_int)
       (closed i o scale target strict nodes hashes choose depth vs l))

(** val check_slots :
    instance -> objective -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool
    -> node search_tree -> (state * int) list search_tree -> (state -> int)
    -> (int list -> int) -> price list -> (row list * Big_int_Z.big_int list)
    list -> int -> (vector list -> (Big_int_Z.big_int * int list list) list
    list -> layer) -> bool **)

let check_slots i o bound scale strict nodes names hash hashes prices0 dd depth choose =
  (&&)
    (no_run i o scale (target_of i o bound scale) strict nodes names hash
      hashes None prices0 dd depth choose)
    (Z.leb Big_int_Z.zero_big_int scale)

(** val all_late : instance -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let all_late i bound =
  Z.add
    (Z.add
      (Z.mul (Z.of_nat (length (initial i)))
        (Z.sub bound Big_int_Z.unit_big_int)) (offset i Flow))
    Big_int_Z.unit_big_int

(** val check_longest :
    instance -> Big_int_Z.big_int -> bool -> node search_tree ->
    (state * int) list search_tree -> (state -> int) -> (int list -> int) ->
    Big_int_Z.big_int list -> price list -> (row list * Big_int_Z.big_int
    list) list -> int -> (vector list -> (Big_int_Z.big_int * int list list)
    list list -> layer) -> bool **)

let check_longest i bound strict nodes names hash hashes deadlines prices0 dd depth choose =
  (&&)
    (no_run i Flow Big_int_Z.unit_big_int (all_late i bound) strict nodes
      names hash hashes (Some deadlines) prices0 dd depth choose)
    (forallb (fun s ->
      match name names hash (norm true Big_int_Z.zero_big_int s) with
      | Some n ->
        Z.leb (Z.sub (Z.add s.arrived bound) Big_int_Z.unit_big_int)
          (latest deadlines (at_node nodes n))
      | None -> false) (initial i))

(** val check :
    instance -> objective -> Big_int_Z.big_int -> (state -> state -> bool) ->
    (Big_int_Z.big_int -> state list -> Big_int_Z.big_int) -> (state list ->
    Big_int_Z.big_int -> state list) -> entry list -> bool **)

let check i o bound leb0 hash steer0 kept =
  (&&)
    ((&&) (Z.leb Big_int_Z.unit_big_int i.mach.block)
      (forallb (fun r -> Z.leb Big_int_Z.zero_big_int r.weight) i.requests))
    (let km = build hash kept in
     let target = target_of i o bound Big_int_Z.unit_big_int in
     (&&)
       (forallb (fun e ->
         kept_ok i o target leb0 hash steer0 km e.states e.mark_of) kept)
       (bounded o target hash steer0 km (origin i o leb0)
         Big_int_Z.zero_big_int))

(** val grows : function0 -> bool **)

let grows f =
  (&&) (Z.leb Big_int_Z.unit_big_int f.divisor)
    (forallb (Z.leb Big_int_Z.zero_big_int)
      (f.busy :: (f.any_decode :: (f.any_prefill :: (f.tokens :: (f.above :: (f.generated :: (f.decode_requests :: (f.prefill_requests :: (f.decode_kv :: (f.prefill_kv :: (f.prefill_pairs :: (f.swap_out_tokens :: (f.swap_in_tokens :: (f.swap_outs :: (f.swap_ins :: []))))))))))))))))

(** val parts : machine -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let parts m x =
  let p =
    match m.prefill_tokens with
    | Some z0 -> Some z0
    | None -> m.batch_tokens
  in
  (match p with
   | Some p0 ->
     if (&&) m.chunked (Z.leb Big_int_Z.unit_big_int p0)
     then ceil_div x p0
     else Big_int_Z.unit_big_int
   | None -> Big_int_Z.unit_big_int)

(** val gone : state -> bool **)

let gone s =
  (&&) s.due (is_h Discard s.window)

(** val kv : state -> Big_int_Z.big_int **)

let kv s =
  if gone s then s.host else Z.add s.device s.host

(** val lack : state -> Big_int_Z.big_int **)

let lack s =
  Z.sub s.known (kv s)

(** val future :
    machine -> Big_int_Z.big_int -> (call * Big_int_Z.big_int) list ->
    Big_int_Z.big_int **)

let rec future m context = function
| [] -> Big_int_Z.zero_big_int
| p :: r0 ->
  let (c, d) = p in
  Z.add
    (Z.add
      (parts m
        (Z.add (Z.add Big_int_Z.unit_big_int c.returns)
          (if0 (is_h Discard (Some c.handled)) context)))
      (Z.sub d Big_int_Z.unit_big_int))
    (future m (Z.add (Z.add context c.returns) d) r0)

(** val delays : state -> Big_int_Z.big_int **)

let delays s =
  sum (fun c -> (fst c).duration) s.rest

(** val toll :
    function0 -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let toll f s k =
  let pre =
    b2z
      ((||) (Z.leb k Big_int_Z.zero_big_int)
        (Z.leb (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)
          (Z.sub s k)))
  in
  Z.add
    (Z.add (Z.add (Z.add (Z.mul f.tokens (Z.sub s k)) f.generated) f.busy)
      (Z.mul (Z.add f.any_prefill f.prefill_requests) pre))
    (Z.mul f.prefill_pairs
      (Z.max pre
        (Z.sub
          (Z.mul (Z.sub s Big_int_Z.unit_big_int)
            (Z.sub s Big_int_Z.unit_big_int)) (Z.mul k k))))

(** val solo :
    function0 list -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let solo fs s k =
  fold_right (fun f x -> Z.max (ceil_div (toll f s k) f.divisor) x)
    Big_int_Z.zero_big_int fs

(** val least_load : Big_int_Z.big_int -> load * load **)

let least_load r =
  ({ tok = Big_int_Z.unit_big_int; ptok = Big_int_Z.zero_big_int; gen =
    Big_int_Z.unit_big_int; ndec = Big_int_Z.unit_big_int; npre =
    Big_int_Z.zero_big_int; dkv = r; pkv = Big_int_Z.zero_big_int; pairs =
    Big_int_Z.zero_big_int; otok = Big_int_Z.zero_big_int; itok =
    Big_int_Z.zero_big_int; nout = Big_int_Z.zero_big_int; nin =
    Big_int_Z.zero_big_int; blk = Big_int_Z.zero_big_int; hos =
    Big_int_Z.zero_big_int }, { tok = Big_int_Z.unit_big_int; ptok =
    Big_int_Z.unit_big_int; gen = Big_int_Z.zero_big_int; ndec =
    Big_int_Z.zero_big_int; npre = Big_int_Z.unit_big_int; dkv =
    Big_int_Z.zero_big_int; pkv = Big_int_Z.zero_big_int; pairs =
    Big_int_Z.unit_big_int; otok = Big_int_Z.zero_big_int; itok =
    Big_int_Z.zero_big_int; nout = Big_int_Z.zero_big_int; nin =
    Big_int_Z.zero_big_int; blk = Big_int_Z.zero_big_int; hos =
    Big_int_Z.zero_big_int })

(** val quick : function0 list -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let quick fs r =
  Z.min (lasts fs (fst (least_load r))) (lasts fs (snd (least_load r)))

(** val step0 : instance -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let step0 i shortest =
  let fs = i.cost in
  quick fs
    (Z.max Big_int_Z.unit_big_int (Z.sub shortest Big_int_Z.unit_big_int))

(** val need : instance -> Big_int_Z.big_int -> state -> Big_int_Z.big_int **)

let need i shortest =
  let m = i.mach in
  let fs = i.cost in
  (fun s ->
  Z.max (Z.mul (step0 i shortest) (parts m (lack s))) (solo fs s.known (kv s)))

(** val tail : instance -> Big_int_Z.big_int -> state -> Big_int_Z.big_int **)

let tail i shortest =
  let m = i.mach in
  (fun s ->
  Z.add
    (Z.mul (step0 i shortest)
      (Z.add (Z.sub s.todo Big_int_Z.unit_big_int)
        (future m (Z.sub (Z.add s.known s.todo) Big_int_Z.unit_big_int)
          s.rest))) (delays s))

(** val first_by :
    instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
    Big_int_Z.big_int **)

let first_by i shortest now s =
  match s.first with
  | Some x -> x
  | None -> Z.add (Z.max now s.ready) (need i shortest s)

(** val over_by :
    instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
    Big_int_Z.big_int **)

let over_by i shortest now s =
  match s.over with
  | Some x -> x
  | None ->
    Z.add (Z.add (Z.max now s.ready) (need i shortest s)) (tail i shortest s)

(** val gap_by :
    instance -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
    Big_int_Z.big_int **)

let gap_by i shortest now s =
  match s.first with
  | Some x -> Z.sub (over_by i shortest now s) x
  | None -> tail i shortest s

(** val shortest_of : instance -> Big_int_Z.big_int **)

let shortest_of i =
  fold_right (fun r x -> Z.min r.prompt x)
    (Z.pow (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)
      (Big_int_Z.mult_int_big_int 2
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      ((fun x -> Big_int_Z.succ_big_int (Big_int_Z.mult_int_big_int 2 x))
      Big_int_Z.unit_big_int)))))) i.requests

(** val simple : instance -> bool **)

let simple i =
  (&&)
    ((&&) (Z.leb Big_int_Z.unit_big_int i.mach.block) (forallb grows i.cost))
    (forallb (fun r ->
      (&&) (Z.leb Big_int_Z.zero_big_int r.weight)
        (forallb (fun c -> Z.leb Big_int_Z.zero_big_int (fst c).returns)
          r.more)) i.requests)

(** val lates_by : instance -> slo list -> state list -> Big_int_Z.big_int **)

let lates_by i =
  let fb = first_by i (shortest_of i) Big_int_Z.zero_big_int in
  let ob = over_by i (shortest_of i) Big_int_Z.zero_big_int in
  let rec lates_by0 qs ss =
    match qs with
    | [] -> Big_int_Z.zero_big_int
    | q :: qs0 ->
      (match ss with
       | [] -> Big_int_Z.zero_big_int
       | s :: ss0 ->
         Z.add
           (b2z
             ((||)
               ((||) (exceeds (Z.sub (fb s) s.arrived) q.to_first)
                 (exceeds (Z.sub (ob s) s.arrived) q.to_last))
               (exceeds (gap_by i (shortest_of i) Big_int_Z.zero_big_int s)
                 q.between))) (lates_by0 qs0 ss0))
  in lates_by0

(** val alone : instance -> goal -> Big_int_Z.big_int **)

let alone i =
  let fb = first_by i (shortest_of i) Big_int_Z.zero_big_int in
  let ob = over_by i (shortest_of i) Big_int_Z.zero_big_int in
  (fun g ->
  let ss = initial i in
  (match g with
   | Whole o ->
     (match o with
      | Makespan ->
        fold_right (fun s x -> Z.max (ob s) x) Big_int_Z.zero_big_int ss
      | Busy -> Big_int_Z.zero_big_int
      | Flow -> sum (fun s -> Z.sub (ob s) s.arrived) ss
      | Weighted -> sum (fun s -> Z.mul s.wt (Z.sub (ob s) s.arrived)) ss
      | Ttft -> sum (fun s -> Z.sub (fb s) s.arrived) ss)
   | Tail (f, n) ->
     nth n
       (fold_right place []
         (map (fun s -> Z.sub (if f then fb s else ob s) s.arrived) ss))
       Big_int_Z.zero_big_int
   | Late qs -> lates_by i qs ss))

type prices = { c_tok : Big_int_Z.big_int; c_gen : Big_int_Z.big_int;
                c_dec : Big_int_Z.big_int; c_pre : Big_int_Z.big_int;
                c_dkv : Big_int_Z.big_int; c_pkv : Big_int_Z.big_int;
                c_pairs : Big_int_Z.big_int; c_ptok : Big_int_Z.big_int;
                c_blk : Big_int_Z.big_int; c_pack : Big_int_Z.big_int;
                packs : Big_int_Z.big_int }

(** val priced0 : prices -> bool **)

let priced0 p =
  forallb (Z.leb Big_int_Z.zero_big_int)
    (p.c_tok :: (p.c_gen :: (p.c_dec :: (p.c_pre :: (p.c_dkv :: (p.c_pkv :: (p.c_pairs :: (p.c_ptok :: (p.c_blk :: (p.c_pack :: (p.packs :: [])))))))))))

(** val room_of : machine -> Big_int_Z.big_int **)

let room_of m =
  match m.memory with
  | Some m0 -> Z.div m0 m.block
  | None -> Big_int_Z.zero_big_int

(** val packing :
    machine -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let packing m k x =
  let y = Z.mul (Z.add k Big_int_Z.unit_big_int) x in
  if Z.eqb (Z.modulo y (room_of m)) Big_int_Z.zero_big_int
  then Z.mul k x
  else Z.mul (Z.div y (room_of m)) (room_of m)

(** val pack : machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let pack m p x =
  if Z.eqb p.c_pack Big_int_Z.zero_big_int
  then Big_int_Z.zero_big_int
  else packing m p.packs x

(** val blocks_of : machine -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let blocks_of m x =
  ceil_div x m.block

(** val limit : machine -> Big_int_Z.big_int option **)

let limit m =
  if m.chunked
  then (match match m.prefill_tokens with
              | Some z0 -> Some z0
              | None -> m.batch_tokens with
        | Some q -> if Z.leb Big_int_Z.unit_big_int q then Some q else None
        | None -> None)
  else None

(** val parts_to :
    machine -> Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let parts_to m k e =
  if Z.leb e k
  then Big_int_Z.zero_big_int
  else (match limit m with
        | Some q -> ceil_div (Z.sub e k) q
        | None -> Big_int_Z.unit_big_int)

(** val held_in : machine -> int -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let rec held_in m n e =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> Big_int_Z.zero_big_int)
    (fun n0 ->
    Z.add (held_in m n0 e)
      (Z.max Big_int_Z.zero_big_int
        (blocks_of m
          (Z.sub e
            (Z.mul (Z.of_nat n0)
              (match limit m with
               | Some q -> q
               | None -> Big_int_Z.zero_big_int))))))
    n

(** val e_of : Big_int_Z.big_int -> bool -> Big_int_Z.big_int **)

let e_of s last =
  Z.sub s (b2z last)

(** val fixed :
    machine -> prices -> Big_int_Z.big_int -> bool -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let fixed m p s last k =
  let e = e_of s last in
  let n = parts_to m k e in
  Z.add
    (Z.add
      (Z.add (Z.add p.c_gen (Z.mul p.c_pack (pack m p (blocks_of m s))))
        (Z.mul p.c_pre n)) (Z.mul p.c_blk (held_in m (Z.to_nat n) e)))
    (if0 last
      (Z.add (Z.add p.c_dec (Z.mul p.c_dkv (Z.sub s Big_int_Z.unit_big_int)))
        (Z.mul p.c_blk (blocks_of m s))))

(** val moved :
    prices -> Big_int_Z.big_int -> bool -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let moved p s last x =
  let e = e_of s last in
  Z.add
    (Z.add (Z.add (Z.mul p.c_tok (Z.sub s x)) (Z.mul p.c_ptok (Z.sub e x)))
      (Z.mul p.c_pairs (Z.sub (Z.mul e e) (Z.mul x x))))
    (if0 (Z.ltb x e) (Z.mul p.c_pkv x))

(** val form :
    machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int -> bool ->
    Big_int_Z.big_int -> Big_int_Z.big_int **)

let form m p s k last x =
  Z.add (fixed m p s last k) (moved p s last x)

(** val forms :
    machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int list **)

let forms m p s k =
  app
    (if (||)
          ((&&) (Z.eqb k (Z.sub s Big_int_Z.unit_big_int))
            (Z.ltb Big_int_Z.zero_big_int k))
          ((&&) m.chunked (Z.ltb Big_int_Z.unit_big_int s))
     then (form m p s k true k) :: []
     else [])
    (app
      (if (||)
            (Z.leb k
              (Z.sub s (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)))
            (Z.leb k Big_int_Z.zero_big_int)
       then (form m p s k false k) :: []
       else if m.partial
            then (form m p s k false
                   (Z.sub s (Big_int_Z.mult_int_big_int 2
                     Big_int_Z.unit_big_int))) :: []
            else [])
      (if Z.ltb Big_int_Z.zero_big_int k
       then (form m p s k false Big_int_Z.zero_big_int) :: (if (&&) m.chunked
                                                                 (Z.ltb
                                                                   Big_int_Z.unit_big_int
                                                                   s)
                                                            then (form m p s
                                                                   k true
                                                                   Big_int_Z.zero_big_int) :: []
                                                            else [])
       else []))

(** val least : Big_int_Z.big_int list -> Big_int_Z.big_int **)

let least = function
| [] -> Big_int_Z.zero_big_int
| x :: l0 -> fold_right Z.min x l0

(** val worth :
    machine -> prices -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let worth m p s k =
  least (forms m p s k)

type piece = { from0 : Big_int_Z.big_int; amount : Big_int_Z.big_int;
               behind : Big_int_Z.big_int }

type job = { ends : Big_int_Z.big_int; left : piece list }

(** val counted :
    Big_int_Z.big_int -> Big_int_Z.big_int -> job list -> Big_int_Z.big_int **)

let counted h k js =
  sum (fun j ->
    sum (fun p -> if0 ((&&) (Z.leb h p.from0) (Z.leb k p.behind)) p.amount)
      j.left) js

(** val early :
    Big_int_Z.big_int -> (Big_int_Z.big_int * Big_int_Z.big_int) list ->
    Big_int_Z.big_int **)

let rec early now = function
| [] -> Big_int_Z.zero_big_int
| y :: l0 ->
  let (r, w) = y in
  let b = Z.max now r in
  Z.add
    (Z.mul w
      (Z.add (Z.mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) b)
        w)) (early (Z.add b w) l0)

(** val merge :
    (Big_int_Z.big_int * Big_int_Z.big_int) list ->
    (Big_int_Z.big_int * Big_int_Z.big_int) list ->
    (Big_int_Z.big_int * Big_int_Z.big_int) list **)

let rec merge l1 = match l1 with
| [] -> (fun l2 -> l2)
| p :: t1 ->
  let (r, w) = p in
  let rec go l2 = match l2 with
  | [] -> l1
  | p0 :: t2 ->
    let (q, v) = p0 in
    if Z.ltb r q
    then (r, w) :: (merge t1 l2)
    else if Z.eqb r q
         then (r, (Z.add w v)) :: (merge t1 t2)
         else (q, v) :: (go t2)
  in go

(** val rising : (Big_int_Z.big_int * Big_int_Z.big_int) list -> bool **)

let rec rising = function
| [] -> true
| p :: m ->
  let (r, _) = p in
  (match m with
   | [] -> true
   | p0 :: _ -> let (q, _) = p0 in (&&) (Z.ltb r q) (rising m))

(** val pairs_of :
    piece list -> (Big_int_Z.big_int * Big_int_Z.big_int) list **)

let pairs_of ps =
  map (fun p -> (p.from0, p.amount)) ps

(** val line : function0 -> prices **)

let line f =
  { c_tok = f.tokens; c_gen = f.generated; c_dec = f.decode_requests; c_pre =
    f.prefill_requests; c_dkv = f.decode_kv; c_pkv = f.prefill_kv; c_pairs =
    f.prefill_pairs; c_ptok = Big_int_Z.zero_big_int; c_blk =
    Big_int_Z.zero_big_int; c_pack = Big_int_Z.zero_big_int; packs =
    Big_int_Z.zero_big_int }

(** val base : function0 -> Big_int_Z.big_int **)

let base f =
  Z.add f.busy (Z.min f.any_decode f.any_prefill)

(** val extra : function0 -> Big_int_Z.big_int **)

let extra f =
  Z.max Big_int_Z.zero_big_int (Z.sub f.any_prefill f.any_decode)

(** val own : function0 -> prices **)

let own f =
  { c_tok = f.tokens; c_gen = f.generated; c_dec =
    (Z.add f.decode_requests (Z.add f.busy f.any_decode)); c_pre =
    (Z.add f.prefill_requests (Z.add f.busy f.any_prefill)); c_dkv =
    f.decode_kv; c_pkv = f.prefill_kv; c_pairs = f.prefill_pairs; c_ptok =
    Big_int_Z.zero_big_int; c_blk = Big_int_Z.zero_big_int; c_pack =
    Big_int_Z.zero_big_int; packs = Big_int_Z.zero_big_int }

(** val once : prices **)

let once =
  { c_tok = Big_int_Z.zero_big_int; c_gen = Big_int_Z.zero_big_int; c_dec =
    Big_int_Z.unit_big_int; c_pre = Big_int_Z.unit_big_int; c_dkv =
    Big_int_Z.zero_big_int; c_pkv = Big_int_Z.zero_big_int; c_pairs =
    Big_int_Z.zero_big_int; c_ptok = Big_int_Z.zero_big_int; c_blk =
    Big_int_Z.zero_big_int; c_pack = Big_int_Z.zero_big_int; packs =
    Big_int_Z.zero_big_int }

type resource =
| ByMemory
| ByPacking of Big_int_Z.big_int
| ByTokens
| ByPrefill

(** val unit_of : resource -> prices **)

let unit_of = function
| ByMemory ->
  { c_tok = Big_int_Z.zero_big_int; c_gen = Big_int_Z.zero_big_int; c_dec =
    Big_int_Z.zero_big_int; c_pre = Big_int_Z.zero_big_int; c_dkv =
    Big_int_Z.zero_big_int; c_pkv = Big_int_Z.zero_big_int; c_pairs =
    Big_int_Z.zero_big_int; c_ptok = Big_int_Z.zero_big_int; c_blk =
    Big_int_Z.unit_big_int; c_pack = Big_int_Z.zero_big_int; packs =
    Big_int_Z.zero_big_int }
| ByPacking k ->
  { c_tok = Big_int_Z.zero_big_int; c_gen = Big_int_Z.zero_big_int; c_dec =
    Big_int_Z.zero_big_int; c_pre = Big_int_Z.zero_big_int; c_dkv =
    Big_int_Z.zero_big_int; c_pkv = Big_int_Z.zero_big_int; c_pairs =
    Big_int_Z.zero_big_int; c_ptok = Big_int_Z.zero_big_int; c_blk =
    Big_int_Z.zero_big_int; c_pack = Big_int_Z.unit_big_int; packs = k }
| ByTokens ->
  { c_tok = Big_int_Z.unit_big_int; c_gen = Big_int_Z.zero_big_int; c_dec =
    Big_int_Z.zero_big_int; c_pre = Big_int_Z.zero_big_int; c_dkv =
    Big_int_Z.zero_big_int; c_pkv = Big_int_Z.zero_big_int; c_pairs =
    Big_int_Z.zero_big_int; c_ptok = Big_int_Z.zero_big_int; c_blk =
    Big_int_Z.zero_big_int; c_pack = Big_int_Z.zero_big_int; packs =
    Big_int_Z.zero_big_int }
| ByPrefill ->
  { c_tok = Big_int_Z.zero_big_int; c_gen = Big_int_Z.zero_big_int; c_dec =
    Big_int_Z.zero_big_int; c_pre = Big_int_Z.zero_big_int; c_dkv =
    Big_int_Z.zero_big_int; c_pkv = Big_int_Z.zero_big_int; c_pairs =
    Big_int_Z.zero_big_int; c_ptok = Big_int_Z.unit_big_int; c_blk =
    Big_int_Z.zero_big_int; c_pack = Big_int_Z.zero_big_int; packs =
    Big_int_Z.zero_big_int }

(** val most_prefill : machine -> Big_int_Z.big_int **)

let most_prefill m =
  match match m.prefill_tokens with
        | Some z0 -> Some z0
        | None -> m.batch_tokens with
  | Some p -> p
  | None -> Big_int_Z.zero_big_int

(** val supply_of : machine -> resource -> Big_int_Z.big_int **)

let supply_of m = function
| ByMemory -> room_of m
| ByPacking k -> Z.mul k (room_of m)
| ByTokens ->
  (match m.batch_tokens with
   | Some c -> c
   | None -> Big_int_Z.zero_big_int)
| ByPrefill -> most_prefill m

(** val blend :
    Big_int_Z.big_int -> prices -> Big_int_Z.big_int -> prices ->
    Big_int_Z.big_int -> prices **)

let blend x p y r z0 =
  { c_tok = (Z.add (Z.mul x p.c_tok) (Z.mul y r.c_tok)); c_gen =
    (Z.add (Z.mul x p.c_gen) (Z.mul y r.c_gen)); c_dec =
    (Z.add (Z.mul x p.c_dec) (Z.mul y r.c_dec)); c_pre =
    (Z.add (Z.mul x p.c_pre) (Z.mul y r.c_pre)); c_dkv =
    (Z.add (Z.mul x p.c_dkv) (Z.mul y r.c_dkv)); c_pkv =
    (Z.add (Z.mul x p.c_pkv) (Z.mul y r.c_pkv)); c_pairs =
    (Z.add (Z.mul x p.c_pairs) (Z.mul y r.c_pairs)); c_ptok =
    (Z.add (Z.add (Z.mul x p.c_ptok) (Z.mul y r.c_ptok)) z0); c_blk =
    (Z.add (Z.mul x p.c_blk) (Z.mul y r.c_blk)); c_pack = (Z.mul y r.c_pack);
    packs = r.packs }

(** val room_pre : machine -> Big_int_Z.big_int **)

let room_pre m =
  Z.max Big_int_Z.unit_big_int (most_prefill m)

(** val surcharge : machine -> function0 -> Big_int_Z.big_int **)

let surcharge m f =
  if Z.leb Big_int_Z.unit_big_int (most_prefill m)
  then extra f
  else Big_int_Z.zero_big_int

(** val mixed : machine -> function0 -> resource -> prices **)

let mixed m f r =
  blend (Z.mul (supply_of m r) (room_pre m)) (line f)
    (Z.mul (base f) (room_pre m)) (unit_of r)
    (Z.mul (surcharge m f) (supply_of m r))

type token = { wait : Big_int_Z.big_int; at_known : Big_int_Z.big_int;
               from_kv : Big_int_Z.big_int }

(** val grow : int -> Big_int_Z.big_int -> token list -> token list **)

let rec grow n s l =
  (fun fO fS n -> if n=0 then fO () else fS (n-1))
    (fun _ -> l)
    (fun n' -> { wait = Big_int_Z.zero_big_int; at_known =
    (Z.add s Big_int_Z.unit_big_int); from_kv =
    s } :: (grow n' (Z.add s Big_int_Z.unit_big_int) l))
    n

(** val following :
    Big_int_Z.big_int -> Big_int_Z.big_int -> (call * Big_int_Z.big_int) list
    -> token list **)

let rec following s n r =
  grow (Z.to_nat n) s
    (match r with
     | [] -> []
     | p :: r0 ->
       let (c, d) = p in
       let e = Z.add s n in
       let k = Z.add (Z.add e Big_int_Z.unit_big_int) c.returns in
       { wait = c.duration; at_known = k; from_kv =
       (if is_h Discard (Some c.handled) then Big_int_Z.zero_big_int else e) } :: 
       (following k (Z.sub d Big_int_Z.unit_big_int) r0))

(** val to_come : state -> token list **)

let to_come s =
  following s.known (Z.sub s.todo Big_int_Z.unit_big_int) s.rest

(** val span0 :
    instance -> (prices * Big_int_Z.big_int) list -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int **)

let span0 i =
  let m = i.mach in
  (fun spans s k ->
  fold_right (fun f x -> Z.max (ceil_div (worth m (fst f) s k) (snd f)) x)
    Big_int_Z.zero_big_int spans)

(** val pause_of : bool -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let pause_of real w =
  if real then w else Big_int_Z.zero_big_int

(** val length_of :
    instance -> bool -> (prices * Big_int_Z.big_int) list -> token list ->
    Big_int_Z.big_int **)

let length_of i real spans l =
  sum (fun x ->
    Z.add (pause_of real x.wait) (span0 i spans x.at_known x.from_kv)) l

(** val clock0 :
    bool -> Big_int_Z.big_int -> Big_int_Z.big_int -> state ->
    Big_int_Z.big_int **)

let clock0 real now c s =
  if real then Z.max now s.ready else c

type rated0 = Big_int_Z.big_int * piece list

(** val beyond : Big_int_Z.big_int option -> rated0 -> bool **)

let beyond a x =
  match a with
  | Some a0 -> Z.leb a0 (fst x)
  | None -> false

(** val newly :
    Big_int_Z.big_int option -> Big_int_Z.big_int ->
    (Big_int_Z.big_int * piece list) -> bool **)

let newly a t0 x =
  (&&) (Z.leb t0 (fst x)) (negb (beyond a x))

(** val climb :
    rated0 list -> Big_int_Z.big_int option -> Big_int_Z.big_int list ->
    (Big_int_Z.big_int * Big_int_Z.big_int) list -> Big_int_Z.big_int **)

let rec climb xs a levels acc =
  match levels with
  | [] -> Big_int_Z.zero_big_int
  | t0 :: levels0 ->
    let acc0 =
      fold_right (fun x l ->
        if newly a t0 x then merge (pairs_of (snd x)) l else l) acc xs
    in
    Z.add
      (Z.mul (Z.sub t0 (hd Big_int_Z.zero_big_int levels0))
        (early Big_int_Z.zero_big_int acc0)) (climb xs (Some t0) levels0 acc0)

(** val falling : Big_int_Z.big_int list -> bool **)

let rec falling = function
| [] -> true
| t0 :: levels0 ->
  (&&) (Z.leb (hd Big_int_Z.zero_big_int levels0) t0) (falling levels0)

(** val in_order : rated0 -> bool **)

let in_order x =
  (&&)
    ((&&) (rising (pairs_of (snd x)))
      (forallb (fun p -> Z.leb Big_int_Z.zero_big_int p.amount) (snd x)))
    (Z.leb Big_int_Z.zero_big_int (fst x))

(** val well : instance -> bool **)

let well i =
  (&&) (simple i)
    (forallb (fun r ->
      (&&)
        ((&&) (Z.leb Big_int_Z.unit_big_int r.prompt)
          (Z.leb Big_int_Z.unit_big_int r.decode))
        (forallb (fun c ->
          (&&) (Z.leb Big_int_Z.zero_big_int (fst c).duration)
            (Z.leb Big_int_Z.unit_big_int (snd c))) r.more)) i.requests)

(** val own_spans : instance -> (prices * Big_int_Z.big_int) list **)

let own_spans i =
  (once,
    Big_int_Z.unit_big_int) :: (map (fun f -> ((own f), f.divisor)) i.cost)

(** val tokens_of : state -> token list **)

let tokens_of s =
  { wait = Big_int_Z.zero_big_int; at_known = s.known; from_kv =
    (kv s) } :: (to_come s)

(** val clock_0 : bool -> state -> Big_int_Z.big_int **)

let clock_0 real s =
  clock0 real Big_int_Z.zero_big_int Big_int_Z.zero_big_int s

(** val placed :
    instance -> bool -> prices -> Big_int_Z.big_int ->
    (prices * Big_int_Z.big_int) list -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> token list -> piece list **)

let placed i real q den spans =
  let m = i.mach in
  let rec placed0 t0 len = function
  | [] -> []
  | y :: l0 ->
    let { wait = w; at_known = n; from_kv = k } = y in
    let d = span0 i spans n k in
    let u = Z.add t0 (pause_of real w) in
    let rest0 = Z.sub len (Z.add (pause_of real w) d) in
    { from0 = (Z.mul den u); amount = (worth m q n k); behind =
    (Z.mul den rest0) } :: (placed0 (Z.add u d) rest0 l0)
  in placed0

(** val long :
    instance -> bool -> (prices * Big_int_Z.big_int) list -> state ->
    Big_int_Z.big_int **)

let long i real spans s =
  length_of i real spans (tokens_of s)

(** val pieces :
    instance -> bool -> prices -> Big_int_Z.big_int ->
    (prices * Big_int_Z.big_int) list -> state -> piece list **)

let pieces i real q den spans s =
  placed i real q den spans (clock_0 real s) (long i real spans s)
    (tokens_of s)

(** val resource_ok : machine -> resource -> bool **)

let resource_ok m r =
  (&&) (Z.leb Big_int_Z.unit_big_int (supply_of m r))
    (match r with
     | ByPacking k -> Z.leb Big_int_Z.unit_big_int k
     | _ -> true)

(** val work_in : instance -> prices -> Big_int_Z.big_int **)

let work_in i =
  let m = i.mach in
  (fun p ->
  sum (fun s -> sum (fun x -> worth m p x.at_known x.from_kv) (tokens_of s))
    (initial i))

(** val fewest :
    instance -> resource -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let fewest i r h k =
  let m = i.mach in
  let u = supply_of m r in
  let ss = initial i in
  let c =
    counted (Z.mul u h) (Z.mul u k)
      (map (fun s -> { ends = Big_int_Z.zero_big_int; left =
        (pieces i false (unit_of r) u ((once, Big_int_Z.unit_big_int) :: [])
          s) }) ss)
  in
  Z.max
    (fold_right (fun s x ->
      Z.max (long i false ((once, Big_int_Z.unit_big_int) :: []) s) x)
      Big_int_Z.zero_big_int ss)
    (if Z.ltb Big_int_Z.zero_big_int c
     then Z.add (Z.add h k) (ceil_div c u)
     else Big_int_Z.zero_big_int)

(** val fewest_prefills : instance -> Big_int_Z.big_int **)

let fewest_prefills i =
  let m = i.mach in
  if Z.leb Big_int_Z.unit_big_int (most_prefill m)
  then ceil_div (work_in i (unit_of ByPrefill)) (most_prefill m)
  else Big_int_Z.zero_big_int

(** val busy_bound :
    instance -> function0 -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int **)

let busy_bound i f r h k =
  Z.add (Z.add (work_in i (line f)) (Z.mul (base f) (fewest i r h k)))
    (Z.mul (extra f) (fewest_prefills i))

(** val busy_ok :
    instance -> function0 -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> bool **)

let busy_ok i f r h k =
  let m = i.mach in
  (fun bound ->
  (&&)
    ((&&)
      ((&&) ((&&) (well i) (resource_ok m r))
        (Z.leb Big_int_Z.zero_big_int h)) (priced0 (line f)))
    (Z.ltb (Z.mul f.divisor (Z.sub bound Big_int_Z.unit_big_int))
      (busy_bound i f r h k)))

(** val earliest : instance -> Big_int_Z.big_int **)

let earliest i =
  match i.requests with
  | [] -> Big_int_Z.zero_big_int
  | r :: rs -> fold_right (fun r0 x -> Z.min r0.arrival x) r.arrival rs

(** val is_flow : objective -> bool **)

let is_flow = function
| Flow -> true
| Weighted -> true
| _ -> false

(** val den_of : instance -> function0 -> resource -> Big_int_Z.big_int **)

let den_of i f r =
  Z.mul f.divisor (Z.mul (supply_of i.mach r) (room_pre i.mach))

(** val least_of : instance -> function0 -> resource -> Big_int_Z.big_int **)

let least_of i f r =
  Z.mul (den_of i f r) (step0 i (shortest_of i))

(** val rated_of :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    state -> Big_int_Z.big_int * piece list **)

let rated_of i o f r q s =
  let ps = pieces i true (mixed i.mach f r) (den_of i f r) (own_spans i) s in
  let w = sum (fun p -> p.amount) ps in
  ((if Z.eqb w Big_int_Z.zero_big_int
    then Big_int_Z.zero_big_int
    else Z.div (Z.mul q (weigh o s)) w), ps)

(** val own_part :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    state -> rated0 -> Big_int_Z.big_int **)

let own_part i o f r q s x =
  let w = sum (fun p -> p.amount) (snd x) in
  if Z.eqb w Big_int_Z.zero_big_int
  then Z.mul
         (Z.mul
           (Z.mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q)
           (den_of i f r))
         (Z.mul (weigh o s)
           (Z.add (clock_0 true s) (long i true (own_spans i) s)))
  else Z.mul (fst x)
         (Z.add (Z.mul (least_of i f r) w)
           (Z.mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)
             (sum (fun p -> Z.mul p.amount p.behind) (snd x))))

(** val own_parts :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    state list -> rated0 list -> Big_int_Z.big_int **)

let rec own_parts i o f r q ss xs =
  match ss with
  | [] -> Big_int_Z.zero_big_int
  | s :: ss0 ->
    (match xs with
     | [] -> Big_int_Z.zero_big_int
     | x :: xs0 ->
       Z.add (own_part i o f r q s x) (own_parts i o f r q ss0 xs0))

(** val flow_ok :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int list -> Big_int_Z.big_int -> bool **)

let flow_ok i o f r q levels bound =
  let ss = initial i in
  let xs = map (rated_of i o f r q) ss in
  (&&)
    ((&&)
      ((&&)
        ((&&)
          ((&&)
            ((&&)
              ((&&) ((&&) (well i) (resource_ok i.mach r))
                (priced0 (mixed i.mach f r)))
              (forallb (fun p -> priced0 (fst p)) (own_spans i))) (is_flow o))
          (Z.ltb Big_int_Z.zero_big_int q)) (falling levels))
      (forallb in_order xs))
    (Z.ltb
      (Z.mul
        (Z.mul
          (Z.mul (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int) q)
          (den_of i f r))
        (Z.sub (Z.add bound (sum (fun s -> Z.mul (weigh o s) s.arrived) ss))
          Big_int_Z.unit_big_int))
      (Z.add (climb xs None levels []) (own_parts i o f r q ss xs)))

(** val shares_ok :
    instance -> objective -> int -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int list ->
    Big_int_Z.big_int -> bool **)

let shares_ok i o place0 r h k q levels bound =
  match nth_error i.cost place0 with
  | Some f ->
    (match o with
     | Makespan ->
       (match i.requests with
        | [] -> false
        | _ :: _ -> busy_ok i f r h k (Z.sub bound (earliest i)))
     | Busy -> busy_ok i f r h k bound
     | _ -> flow_ok i o f r q levels bound)
  | None -> false

type payer = { since0 : Big_int_Z.big_int; till : Big_int_Z.big_int;
               gain : (Big_int_Z.big_int -> Big_int_Z.big_int);
               toll0 : (Big_int_Z.big_int -> Big_int_Z.big_int);
               fee0 : (Big_int_Z.big_int -> Big_int_Z.big_int) }

(** val fee0 : payer -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let fee0 p =
  p.fee0

(** val later0 : Big_int_Z.big_int -> piece -> piece **)

let later0 f p =
  { from0 = (Z.max f p.from0); amount = p.amount; behind = p.behind }

(** val kappa :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let kappa e gap n root price0 p z0 dmin =
  let g =
    if Z.eqb gap Big_int_Z.zero_big_int then n else root price0 p z0 dmin
  in
  Z.add
    (ceil_div
      (Z.mul
        (Z.mul price0
          (Z.sub (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
            (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
            (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
            (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
            (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
            Big_int_Z.unit_big_int)))))))))) e))
        (Z.pow (Z.sub g n) (Big_int_Z.mult_int_big_int 2
          Big_int_Z.unit_big_int)))
      (Z.mul (Z.pow n (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int))
        gap))
    (ceil_div
      (Z.max Big_int_Z.zero_big_int
        (Z.sub
          (Z.sub
            (Z.mul z0
              (Z.pow n (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)))
            (Z.mul price0
              (Z.add
                (Z.mul
                  (Z.sub (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    Big_int_Z.unit_big_int)))))))))) e)
                  (Z.pow g (Big_int_Z.mult_int_big_int 2
                    Big_int_Z.unit_big_int)))
                (Z.mul e
                  (Z.pow n (Big_int_Z.mult_int_big_int 2
                    Big_int_Z.unit_big_int))))))
          (Z.mul p
            (Z.pow n (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int)))))
      (Z.mul (Z.pow n (Big_int_Z.mult_int_big_int 2 Big_int_Z.unit_big_int))
        dmin))

type bands = (Big_int_Z.big_int * Big_int_Z.big_int) list

(** val gain_of : bands -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let rec gain_of bs o =
  match bs with
  | [] -> Big_int_Z.zero_big_int
  | p :: bs0 ->
    let (h, z0) = p in
    Z.add (Z.mul z0 (Z.max Big_int_Z.zero_big_int (Z.min o h)))
      (gain_of bs0 (Z.sub o h))

(** val toll_of :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> bands -> Big_int_Z.big_int **)

let rec toll_of e gap least0 n root price0 fee1 = function
| [] -> Big_int_Z.zero_big_int
| p :: bs0 ->
  let (h, z0) = p in
  Z.add
    (Z.mul h
      (kappa e gap n root price0 (Z.div fee1 h) z0
        (Z.max least0 (Z.add gap h))))
    (toll_of e gap least0 n root price0 Big_int_Z.zero_big_int bs0)

(** val right : bands -> bool **)

let right bs =
  forallb (fun b ->
    (&&) (Z.ltb Big_int_Z.zero_big_int (fst b))
      (Z.leb Big_int_Z.zero_big_int (snd b))) bs

(** val slot_of :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int **)

let slot_of o l u =
  Z.to_nat (Z.div (Z.sub u o) l)

(** val opens :
    Big_int_Z.big_int -> Big_int_Z.big_int -> int -> Big_int_Z.big_int **)

let opens o l s =
  Z.add o (Z.mul (Z.of_nat s) l)

(** val spend :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int list -> Big_int_Z.big_int **)

let rec spend l len x = function
| [] -> Big_int_Z.zero_big_int
| y :: l1 ->
  if Z.leb x len
  then Z.mul y x
  else Z.add (Z.mul y len) (spend l l (Z.sub x len) l1)

(** val ends_from :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec ends_from l w acc len = function
| [] -> []
| y :: l1 ->
  let next0 = Z.add acc (Z.mul len (Z.sub w y)) in
  (Z.min acc next0) :: (ends_from l w next0 l l1)

type plan = { split : bool; rungs : Big_int_Z.big_int list;
              firsts : Big_int_Z.big_int list;
              tries : Big_int_Z.big_int list list;
              cells : Big_int_Z.big_int list; slots : int;
              dues : Big_int_Z.big_int list }

(** val zip_max :
    Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec zip_max l m =
  match l with
  | [] -> []
  | x :: l0 ->
    (match m with
     | [] -> []
     | y :: m0 -> (Z.max x y) :: (zip_max l0 m0))

(** val most : Big_int_Z.big_int list list -> Big_int_Z.big_int list **)

let rec most = function
| [] -> []
| r :: rows0 -> (match rows0 with
                 | [] -> r
                 | _ :: _ -> zip_max r (most rows0))

(** val tolls :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) -> int ->
    Big_int_Z.big_int list -> Big_int_Z.big_int list -> bands ->
    Big_int_Z.big_int list **)

let tolls e gap least0 n root =
  let tollf = toll_of e gap least0 n root in
  let rec tolls0 n0 ps fs bs =
    (fun fO fS n -> if n=0 then fO () else fS (n-1))
      (fun _ -> [])
      (fun n1 ->
      (tollf (hd Big_int_Z.zero_big_int ps) (hd Big_int_Z.zero_big_int fs) bs) :: 
      (tolls0 n1 (tl ps) (tl fs) bs))
      n0
  in tolls0

(** val amount_in : bands -> piece list -> Big_int_Z.big_int **)

let amount_in bs ps =
  sum (fun p -> gain_of bs p.amount) ps

(** val made :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
    Big_int_Z.big_int list -> int -> Big_int_Z.big_int list -> int -> piece
    list -> bands -> Big_int_Z.big_int * Big_int_Z.big_int list **)

let made e gap least0 n root prices0 n0 fees_of s0 ps bs =
  ((amount_in bs ps),
    (tolls e gap least0 n root n0 (skipn s0 prices0) (skipn s0 fees_of) bs))

(** val cell :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int -> int
    -> (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int
    -> Big_int_Z.big_int -> Big_int_Z.big_int **)

let cell o l w n s0 =
  let stop = opens o l (add s0 n) in
  (fun ms a e ->
  if Z.leb stop a
  then Z.mul w stop
  else let s = slot_of o l a in
       fold_right Z.min (Z.mul w stop)
         (skipn (sub (slot_of o l e) s)
           (most
             (map (fun m ->
               ends_from l w (Z.add (Z.mul w a) (fst m))
                 (Z.sub (opens o l (Stdlib.Int.succ s)) a)
                 (skipn (sub s s0) (snd m))) ms))))

(** val head :
    Big_int_Z.big_int -> Big_int_Z.big_int -> int -> piece ->
    (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int ->
    Big_int_Z.big_int **)

let head o l s0 p ms0 x =
  fold_right Z.max Big_int_Z.zero_big_int
    (map (fun m ->
      Z.sub (fst m)
        (spend l (Z.sub (opens o l (Stdlib.Int.succ s0)) p.from0)
          (Z.sub x p.from0) (snd m))) ms0)

(** val by_cells :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int -> int -> int
    -> piece -> (Big_int_Z.big_int * Big_int_Z.big_int list) list ->
    (Big_int_Z.big_int * Big_int_Z.big_int list) list -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int list -> Big_int_Z.big_int **)

let rec by_cells o l w n s0 p ms0 ms b first0 a e = function
| [] -> Z.mul w e
| x :: es0 ->
  Z.min (Z.add (cell o l w n s0 ms a e) (head o l s0 p ms0 x))
    (by_cells o l w n s0 p ms0 ms b first0 (Z.max x b)
      (Z.max first0 (Z.add x p.behind)) es0)

(** val share :
    machine -> Big_int_Z.big_int -> function0 -> resource -> prices **)

let share m m0 f r =
  blend
    (Z.mul (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      Big_int_Z.unit_big_int)))))))))) (Z.mul (supply_of m r) (room_pre m)))
    (line f) (Z.mul (Z.mul m0 (base f)) (room_pre m)) (unit_of r)
    (Z.mul
      (Z.mul (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
        (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
        (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
        (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
        (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
        Big_int_Z.unit_big_int)))))))))) (surcharge m f)) (supply_of m r))

(** val unit_ticks : machine -> function0 -> resource -> Big_int_Z.big_int **)

let unit_ticks m f r =
  Z.mul (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
    Big_int_Z.unit_big_int))))))))))
    (Z.mul f.divisor (Z.mul (supply_of m r) (room_pre m)))

(** val gap_of :
    machine -> Big_int_Z.big_int -> function0 -> resource -> Big_int_Z.big_int **)

let gap_of m m0 f r =
  Z.mul
    (Z.sub (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
      Big_int_Z.unit_big_int)))))))))) m0)
    (Z.mul (base f) (Z.mul (supply_of m r) (room_pre m)))

(** val zip_add :
    Big_int_Z.big_int list -> Big_int_Z.big_int list -> Big_int_Z.big_int list **)

let rec zip_add l m =
  match l with
  | [] -> m
  | x :: l0 ->
    (match m with
     | [] -> l
     | y :: m0 -> (Z.add x y) :: (zip_add l0 m0))

(** val no_later : Big_int_Z.big_int -> piece list -> Big_int_Z.big_int **)

let no_later b qs =
  fold_right (fun q x -> Z.min q.from0 x) b qs

(** val plan_value :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int list ->
    Big_int_Z.big_int -> piece list -> Big_int_Z.big_int -> plan ->
    Big_int_Z.big_int option **)

let plan_value o l e gap least0 n root prices0 w ps first0 pl =
  let bss = map (combine pl.rungs) pl.tries in
  if (&&)
       ((&&) (forallb right bss)
         (forallb (Z.leb Big_int_Z.zero_big_int) pl.dues))
       (forallb (fun q -> Z.leb Big_int_Z.zero_big_int q.behind) ps)
  then if pl.split
       then (match ps with
             | [] -> None
             | p :: qs ->
               let b = no_later first0 qs in
               let s0 = slot_of o l p.from0 in
               let bss0 = map (fun z0 -> (p.amount, z0) :: []) pl.firsts in
               if (&&)
                    ((&&) ((&&) (forallb right bss0) (Z.leb o p.from0))
                      (Z.leb p.from0 b))
                    (forallb (fun x ->
                      (&&) (Z.leb p.from0 x)
                        (Z.leb x (opens o l (add s0 pl.slots)))) pl.cells)
               then Some
                      (by_cells o l w pl.slots s0 p
                        (map
                          (made e gap least0 n root prices0 pl.slots pl.dues
                            s0 (p :: [])) bss0)
                        (map
                          (made e gap least0 n root prices0 pl.slots pl.dues
                            s0 qs) ([] :: bss)) b first0 b first0 pl.cells)
               else None)
       else let b = no_later first0 ps in
            let s0 = slot_of o l b in
            if Z.leb o b
            then Some
                   (cell o l w pl.slots s0
                     (map
                       (made e gap least0 n root prices0 pl.slots pl.dues s0
                         ps) ([] :: bss)) b first0)
            else None
  else None

(** val values :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    (Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int) -> Big_int_Z.big_int list ->
    Big_int_Z.big_int -> objective -> Big_int_Z.big_int -> (state -> piece
    list) -> (state -> Big_int_Z.big_int) -> state list -> plan list ->
    Big_int_Z.big_int option **)

let rec values o l e gap least0 n root prices0 u o0 den pieces_of lone0 ss pls =
  match ss with
  | [] -> (match pls with
           | [] -> Some Big_int_Z.zero_big_int
           | _ :: _ -> None)
  | s :: ss0 ->
    (match pls with
     | [] -> None
     | pl :: pls0 ->
       (match plan_value o l e gap least0 n root prices0
                (Z.mul u (weigh o0 s)) (pieces_of s) (Z.mul den (lone0 s)) pl with
        | Some v ->
          (match values o l e gap least0 n root prices0 u o0 den pieces_of
                   lone0 ss0 pls0 with
           | Some x -> Some (Z.add v x)
           | None -> None)
        | None -> None))

(** val within_prices :
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int list ->
    Big_int_Z.big_int list -> bool **)

let rec within_prices e gap ds ps =
  match ds with
  | [] -> true
  | d :: ds0 ->
    (match ps with
     | [] ->
       (&&) (Z.leb d Big_int_Z.zero_big_int) (within_prices e gap ds0 [])
     | p :: ps0 ->
       (&&) (Z.leb d (Z.mul (Z.mul e p) gap)) (within_prices e gap ds0 ps0))

(** val lone : instance -> state -> Big_int_Z.big_int **)

let lone i s =
  Z.add (clock_0 true s) (long i true (own_spans i) s)

(** val speed_bound :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
    Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int option **)

let speed_bound i o f r m e slot n u root prices0 pls =
  let m0 = i.mach in
  let q = share m0 m f r in
  let den = unit_ticks m0 f r in
  let gap = gap_of m0 m f r in
  values (Z.mul den (earliest i)) (Z.mul den slot) e gap
    (Z.mul den (step0 i (shortest_of i))) n root prices0 u o den
    (pieces i true q den (own_spans i)) (lone i) (initial i) pls

(** val speed_ok :
    instance -> objective -> function0 -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
    Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int -> bool **)

let speed_ok i o f r m e slot n u root prices0 pls =
  let m0 = i.mach in
  let q = share m0 m f r in
  let den = unit_ticks m0 f r in
  let gap = gap_of m0 m f r in
  (fun bound ->
  (&&)
    ((&&)
      ((&&)
        ((&&)
          ((&&)
            ((&&)
              ((&&)
                ((&&)
                  ((&&)
                    ((&&)
                      ((&&)
                        ((&&)
                          ((&&)
                            ((&&) ((&&) (well i) (resource_ok m0 r))
                              (priced0 q))
                            (forallb (fun p -> priced0 (fst p)) (own_spans i)))
                          (is_flow o)) (Z.leb Big_int_Z.zero_big_int m))
                      (Z.leb m (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        (Big_int_Z.mult_int_big_int 2
                        Big_int_Z.unit_big_int))))))))))))
                    (Z.leb Big_int_Z.zero_big_int e))
                  (Z.leb e (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    (Big_int_Z.mult_int_big_int 2
                    Big_int_Z.unit_big_int))))))))))))
                (Z.ltb Big_int_Z.zero_big_int slot))
              (Z.ltb Big_int_Z.zero_big_int n))
            (Z.ltb Big_int_Z.zero_big_int u))
          (Z.leb Big_int_Z.zero_big_int (earliest i)))
        (forallb (Z.leb Big_int_Z.zero_big_int) prices0))
      (within_prices e gap (fold_right (fun pl -> zip_add pl.dues) [] pls)
        prices0))
    (match speed_bound i o f r m e slot n u root prices0 pls with
     | Some v ->
       Z.ltb
         (Z.mul (Z.mul u den)
           (Z.sub
             (Z.add bound
               (sum (fun s -> Z.mul (weigh o s) s.arrived) (initial i)))
             Big_int_Z.unit_big_int))
         (Z.sub v
           (Z.mul (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
             (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
             (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
             (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
             (Big_int_Z.mult_int_big_int 2 (Big_int_Z.mult_int_big_int 2
             Big_int_Z.unit_big_int))))))))))
             (Z.mul (Z.mul den slot)
               (fold_right Z.add Big_int_Z.zero_big_int prices0))))
     | None -> false))

(** val speed_proves :
    instance -> objective -> int -> resource -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> (Big_int_Z.big_int -> Big_int_Z.big_int ->
    Big_int_Z.big_int -> Big_int_Z.big_int -> Big_int_Z.big_int) ->
    Big_int_Z.big_int list -> plan list -> Big_int_Z.big_int -> bool **)

let speed_proves i o place0 r m e slot n u root prices0 pls bound =
  match nth_error i.cost place0 with
  | Some f -> speed_ok i o f r m e slot n u root prices0 pls bound
  | None -> false

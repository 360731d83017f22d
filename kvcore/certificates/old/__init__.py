"""A kind of certificate that nothing proposes any more, `tree`: two records of the library rest on it.

Numbers that stand for something without an end:

* `prices._cost_of_limits`: 0 for no limit. A price of such a resource is refused; host tokens without one are free.
* Price 0 in slots after the last: only payments, at least 0, are left out; time counts (`beyond`).
* Sums in 64 bits. `prices._check_size`: 4 legs (peak + slots + least time) times all prices, and rate times time, below
  2^57. An arrival after the last slot may wrap in entries that `after` never takes.
* `path_kernels.fill_least`: 0 before the earliest slot. No price is less.
* `paths.NEVER`: 2^60 for a path that does not end as it must. Every other entry is below, and tables are cut off there.
* `paths.ANY_LATER`: 2^62 for the last slot of an end without one. Only compared.
"""

"""Kinds of certificates that nothing proposes any more, `prices` and `tree`: their files are read for one release more.

Places where a number stands for something without an end, as in `kvcore.certificates`:

* `prices._cost_of_limits`: 0 for no limit. A price of such a resource is refused; host tokens without a limit are free
  in `path_kernels.holding` too.
* `prices`, `paths`, `evictions`: price 0 in slots after the last. Prices are at least 0, so only payments are left out;
  the time still counts (`beyond`).
* `paths`: sums in 64 bits. `prices._check_size`: 4 legs (peak + slots + least time) times all prices, and rate times
  time, below 2^57, six bits below the end. An arrival after the last slot may wrap in entries that `after` never
  takes: it is `beyond`. The same in `evictions`; the peak counts as time, for the parts of a refill, and a cost is
  at most that of going on without another eviction: below (2 legs + 8) peak times all prices, and so 2^60.
* `path_kernels.fill_least`: 0 before the earliest slot. No price is less.
* `paths.NEVER`: 2^60 for a path that does not end as it must. Every other entry is below (above), and tables are cut
  off there before more is added; only differences of what holding KV costs, at least 0, are taken off.
* `paths.ANY_LATER`: 2^62 for the last slot of an end without one. Only compared; no slot is later.
"""

"""Certificates of lower bounds, and the checker: exact, without any solver (`docs/certificates.md`).

Every place in the checkers, and in what they rest on, where a number stands for something without an end, and why no
schedule can exceed it; elsewhere `None` (no limit) is never a number.

* `shares.most_prefill`: sum of all peaks. What a request processed is part of its KV after the batch, at most its peak.
* `shares.PricedSteps.late`: `LIMIT`, 10^15, as the end of a window. Only sorts: no window in a file ends later.
* `late_windows.NEVER`: 2^62 as a due time. Only compared; no window ends after `LIMIT`. All work is below 2^40 units,
  all weights below 2^41: products with 2^20, and their sums, stay below 2^62.
* `steps.MOST`: 2^62 as the price of a way not allowed. Each token has an allowed one (a decode if KV was kept, else a
  prefill), which `Steps.most` proves in unbounded integers to be below 2^62; else refused.
* `steps.MOST_KV` as prefill budget: 2^30 tokens. Requests with more KV are refused, so no prefill is longer.
* `steps.MOST_KV` as block: 2^30 tokens. A part of 1 to 2^30 tokens takes one block of any such size; the sum over parts
  is at least their tokens / 2^30.
* `steps._packed`: 1 block where the memory has no limit. `packing` is then refused, so its price is 0.
* `steps`, `shares`: sums in 64 bits. `check_size`: sums over a request, and of all ticks, calls and arrivals, stay
  below 2^62 (in floating point plus a part in 2^20); shares in units of 2^-bits too, as bits are lowered for it. Larger
  numbers are unbounded (pieces, moments, flows). Running sums over all requests may wrap: only differences within a
  request are taken.
* `speed`: price 0 and room for all in the slot after the last: less is paid, and a tick there takes time. Lines with
  fewer prices than the first have 0 in the other slots.
* `shares.Shares.share`, `slot_dual.PricedRequests._supply`: 1 or 0 for no limit. A part or price of such a resource is
  refused.
* `slot_dual`: price 0 in slots after the last. Payments are left out, which are at least 0; time counts.
* `slot_dual`: sums in 64 bits. No state holds, and no option takes, more than a limit: a value is at most the rate
  times the time of the fastest way and all payments for the limits, below 2^59, else refused.
* `slot_dual.PricedRequests._cost`: infinity where no way is as a case says. Another case has the schedules.
* `slot_dual.PricedRequests.left`: 2^16 ticks where a request cannot be over. It takes no fewer.
* `slot_kernels.NEVER`: 2^60 for a state that cannot be over in time. No value is more.
* `configurations._network`: 1 for starts before release or when they no longer pay. Without a start that costs 0 or
  more the way fits and costs no more.
* `configurations._network`: last tick. After it every start costs at least its price: a way that goes on costs no less.
* `configurations._least`: one tick after the last price. Later starts cost more, and pay nothing for memory.
* `configurations._check_size`: 2 `MAX_TICKS`. Ticks of the network and of starts are refused above; a tick has at most
  M starts, as each takes a block. All sums stay below 2^62.
* `in_order`: price 0 after the last slot; what is left of a call is forgotten. A value is at most all payments at the
  highest price, and the rate times the last end: below 2^62, else refused.
* `in_order.MOST`: 2^62, then infinity, where no plan is as a case says. Another case has the schedules.
* `pairs.ENDLESS`: 2^60 blocks for no limit. Two contexts take at most 2 10^15.
* `rigid.memory_of`: sum of all last loads. All requests at once take no more; `rigid.too_large` refuses sums above
  2^30, so that 32 bits hold loads.
* `running.Elements`: `most` of one last load. As many requests as there are.
* `labels.NO`, `frontier.MISSED`: -1 and -2 for a time that no longer matters. Ages are at least 0, and asked first.
* `labels.TOP`: 2^60 for no limit and no target. Each count of an option is below 2^53, of at most 32 requests. States
  whose bound is as high are left out, and no more is proved.
* `labels.LARGE`: a step adds less than 2^58 to a label, else refused; so labels stay below 2^61.
* `enumeration.EnumerationSearch.limits`: infinity for no limit. Only compared.
* `labels.LARGE` in `potentials`: 2^58 for no limit and no target. A step adds no more than its batch, and moves of all
  contexts; all steps together, times all rates, are below, else refused.
* `request_graph.RequestGraph.least`: `far`, at most 2^60. The least that is left, cut off, is no more than uncut, and
  falls by no more than an option takes. A share with 2^60 or more in a tick is left out.
* `one_machine.largest`, `chains.settled`: 0 where there is nothing. No value is less.
* `chains.longest_batch`: every feature at its largest. Work and swaps of a request are at most its peak, each once in a
  batch; pairs c^2 + 2cm <= (m + c)^2.
* `proof.FINEST`, `certificate.FINEST`: 10^40 and 10^18 parts. Fractions are rounded down.
"""

from kvcore.certificates.alone import Alone
from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.certificate import (
    AnyProof,
    Certificate,
    certify,
    read_certificate,
    recompute,
    rounded,
    verify_certificate,
)
from kvcore.certificates.configurations import Configurations
from kvcore.certificates.enumeration import Enumeration
from kvcore.certificates.events import Events
from kvcore.certificates.in_order import InOrder
from kvcore.certificates.late_windows import LateWindows
from kvcore.certificates.pairs import Pairs
from kvcore.certificates.potentials import Potential, Potentials
from kvcore.certificates.proof import Proof
from kvcore.certificates.shares import Shares
from kvcore.certificates.slot_dual import Branch, SlotDual
from kvcore.certificates.slots import SlotPrices, Slots
from kvcore.certificates.speed import PricedLine, Speed
from kvcore.certificates.tail import LateTail

__all__ = [
    "Alone",
    "AnyProof",
    "Branch",
    "Certificate",
    "Configurations",
    "Enumeration",
    "Events",
    "InOrder",
    "InvalidCertificate",
    "LateTail",
    "LateWindows",
    "Pairs",
    "Potential",
    "Potentials",
    "PricedLine",
    "Proof",
    "Shares",
    "SlotDual",
    "SlotPrices",
    "Slots",
    "Speed",
    "certify",
    "read_certificate",
    "recompute",
    "rounded",
    "verify_certificate",
]

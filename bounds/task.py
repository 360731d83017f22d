"""What a bounding method takes and gives."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bounds import clock
from bounds.clock import now
from bounds.tuning import Options, option
from kvcore.certificates.alone import Alone
from kvcore.certificates.budget import Budget, Most
from kvcore.certificates.pairs import Pairs, spend
from kvcore.certificates.proof import Proof
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine, Request
from kvcore.metrics import Value


@dataclass(frozen=True)
class LadderOptions(Options):
    """The time of the ladder of bounds."""

    slack: float = option(2.0, "a checker counts its work for the worst case: so many times what it mostly takes")

    first = 0.25  # part of the time in which each way has its first turn


class NoTime(BadInput):
    """The first proof of a way takes `more` seconds than are left."""

    def __init__(self, seconds: float, left: float) -> None:
        super().__init__(f"one evaluation takes about {seconds:.1f} s, and {left:.1f} s are left: give it more time")
        self.more = seconds - left


@dataclass
class Task:
    """The instance, the objective, and the deadline (by `bounds.clock.now`), which may change meanwhile.

    `upper`, the value of a known schedule, only says where a proof may stop; `news` gives that of one that others found
    meanwhile. By `end` the first proof has to be there. `finds`: schedules are worth a search, too.
    """

    instance: Instance
    objective: str
    deadline: float = math.inf
    upper: Value | None = None
    end: float = math.inf
    news: Callable[[], Value | None] = lambda: None
    finds: bool = False

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return now() > self.deadline

    def stops(self) -> bool:
        """Whether the deadline has passed, asked after each slice of a search over labels."""
        clock.spend(clock.Units.slice)
        return self.is_over()

    @property
    def seconds_left(self) -> float:
        """Processor seconds until the deadline."""
        return max(0.0, self.deadline - now())

    def begin(self, budget: Budget) -> None:
        """Raise NoTime if an evaluation, by its use of a fresh budget, ends after `end`."""
        seconds = (Most.work - budget.work) / (LadderOptions.given().slack * 10**9)
        left = max(0.0, self.end - now())
        if seconds > left:
            raise NoTime(seconds, left)


def spend_check(instance: Instance) -> None:
    """Count the work of a check that looks at each output token."""
    clock.spend(clock.Units.proof + clock.Units.token * sum(request.output for request in instance.requests))


class Proposal(NamedTuple):
    """A proof, and its bound where known."""

    proof: Proof
    value: Value | None = None


def propose_alone(_: Task) -> Iterator[Proposal]:
    """Return the proof that no request is faster than alone."""
    return iter([Proposal(Alone())])


def propose_pairs(task: Task) -> Iterator[Proposal]:
    """Return the proof that requests share a batch only where they fit, or raise InvalidCertificate."""
    spend(task.instance, task.objective, count := Budget())
    task.begin(count)
    return iter([Proposal(Pairs())])


def most_options(instance: Instance) -> int:
    """Return about how many options requests have, if every amount of KV can come up."""
    return sum(_options_of(instance.machine, request) for request in {request.shape for request in instance.requests})


def _options_of(machine: Machine, request: Request) -> int:
    drops = machine.evict or any(call.handling in ("discard", "free") for call in request.calls)
    sizes = min(request.peak, machine.prefill_limit or request.peak) if machine.chunked else 1
    amounts = request.output if drops or not machine.chunked else 1
    moves = request.peak**2 if machine.partial and (drops or machine.host_memory != 0) else 1
    prefills = request.peak if machine.chunked else 2
    return amounts * prefills * sizes * moves

"""What a checker may take of work and memory: counted before it begins."""

from __future__ import annotations

MOST_WORK = 2**39
"""Nanoseconds, about: nine minutes."""
MOST_MEMORY = 2**32
"""Bytes at a time."""
CALL = 1500
"""Work of a call to numpy, however small its arrays."""


MOST_LOOKED = 4_000_000
"""Moves and options of requests looked at."""
LOOK_WORK = 10_000
"""Work of one of them."""


class InvalidCertificate(Exception):
    """A certificate does not prove its claim: why, in one line."""


class Budget:
    """What is left for one certificate, shared by the proofs inside it."""

    def __init__(self, work: int = MOST_WORK, memory: int = MOST_MEMORY) -> None:
        self.work = work
        self.memory = memory

    def spend(self, what: str, work: int, memory: int = 0) -> None:
        """Take steps and bytes, or raise InvalidCertificate that blames `what`."""
        if memory > self.memory:
            raise InvalidCertificate(
                f"{what} would take too much memory to check, about {memory >> 20} MiB of {self.memory >> 20}: "
                "give a smaller proof, or coarsen the instance"
            )
        if work > self.work:
            raise InvalidCertificate(
                f"{what} would take too long to check, about {work // 10**9} s where {self.work // 10**9} are left: "
                "give a smaller proof, or coarsen the instance"
            )
        self.work -= work


class Looked:
    """Moves and options still to look at, paid for before."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.left = budget, MOST_LOOKED

    def take(self, amount: int) -> None:
        """Take moves and options, or raise InvalidCertificate."""
        if amount > self.left:
            raise InvalidCertificate(f"requests have too many options: there are more than {MOST_LOOKED} moves to try")
        self.left -= amount
        self.budget.spend("the options of requests", LOOK_WORK * amount)

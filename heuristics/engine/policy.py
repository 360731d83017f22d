"""What a policy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Self

from heuristics.engine.job import Knows
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from kvcore.instance import Machine
from kvcore.shown import brief


class Policy(ABC):
    """A rule that decides, at each batch boundary, what the batch does. `heuristics.run_policy` runs it.

    A subclass gives the class attributes and `decide`. State kept between batches is set up in `start`, which is
    called before each run.
    """

    name: str
    rule: str
    """The rule in one line."""
    source: str
    """Where it is from."""
    knows: Knows = "online"
    free_calls: ClassVar[Literal["min-waste", "preserve", "own"]] = "min-waste"
    """What handles calls that the instance leaves free: the min-waste rule or preserve, both fixed beforehand, or
    the policy itself, by the moves it makes from the start of a call to the next work."""
    needs: tuple[str, ...] = ()
    """The switches of the machine without which it cannot run (`evict` only where memory has a limit)."""

    def __repr__(self) -> str:
        """Return its name, and the rule in a line."""
        return f"Policy({self.name!r}, {self.knows}: {brief(self.rule)})"

    def start(self, view: View) -> None:  # noqa: B027 - a policy without state needs none
        """Prepare for a run; `view` has the machine and the cost, and no request yet."""

    def why_not(self, machine: Machine) -> str | None:
        """Say why it cannot run on a machine (None: it can)."""
        enough = machine.memory is None
        missing = [name for name in self.needs if not getattr(machine, name) and not (enough and name == "evict")]
        return f"it needs a machine with {' and '.join(missing)}" if missing else None

    def called(self, name: str, rule: str, source: str | None = None) -> Self:
        """Return it, whose switches make it another policy, with a name, a rule and perhaps a source of its own."""
        self.name, self.rule, self.source = name, rule, source or self.source
        return self

    @abstractmethod
    def decide(self, view: View, plan: Plan) -> None:
        """Fill `plan` for the batch that starts at `view.now`; leave it empty to wait for the next event."""

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches, this one included, the same would be decided if nothing happens in between.

        Asked only about batches of decodes that go on: no request arrives, returns or ends, and none lacks a block. The
        engine then repeats the batch without asking; by default it asks for every batch.
        """
        return 1

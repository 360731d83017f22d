"""What a policy is."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from inspect import cleandoc
from typing import Any, ClassVar, Literal, NamedTuple, Self

from heuristics.engine.job import Knows
from heuristics.engine.plan import Plan
from heuristics.engine.sharing import Foresight
from heuristics.engine.view import View
from kvcore.errors import BadInput, unknown
from kvcore.features import RULES, Feature, Takes, features_of
from kvcore.instance import LIMIT, Instance, Machine
from kvcore.shown import brief


class Setting(NamedTuple):
    """A number or word that a policy's name may give; the attribute of that name has the default (None: none)."""

    does: str  # what it sets, in a line
    least: float = 0
    most: float = LIMIT
    words: tuple[str, ...] = ()  # those allowed, in place of a number


def rounded(number: float) -> float:
    """Return it with the digits of a policy's name."""
    return float(f"{number:g}")


LAID = Takes(
    RULES | {Feature.OWN_COST, Feature.DROP_AND_WORK, Feature.LAYOUT},
    apart=frozenset({(Feature.HOST, Feature.LAYOUT), (Feature.NO_PAUSE, Feature.LAYOUT)}),
)
"""What takes a layout of KV, by `Job.growth`, `Job.blocks` and `Plan.admits` alone."""

Point = tuple[float, ...]


def scaled(point: Point, step: float) -> Iterator[Point]:
    """Yield the points with one number `step` times as large, or as small."""
    for k, change in [(k, change) for k in range(len(point)) if point[k] for change in (step, 1 / step)]:
        yield (*point[:k], rounded(point[k] * change), *point[k + 1 :])


class Tuning(NamedTuple):
    """How the numbers of a policy are searched: from the best of the starts, one at a time, by ever smaller steps."""

    step: float  # the first
    finest: float  # closer numbers are not worth telling apart
    starts: tuple[Point, ...] = ()  # in the order of `__init__`; none: they depend on the instance
    near: Callable[[Point, float], Iterable[Point]] = scaled


class Policy(ABC):
    """A rule that decides, at each batch boundary, what the batch does. `heuristics.run_policy` runs it.

    A subclass gives the class attributes and `decide`; it sets up state in `start`, which is called before each run.
    """

    name: str
    rule: str  # the rule in one line: the first one of the docstring, unless given
    source: str
    """Its source: the docstring's text after "Source: ", up to a semicolon or full stop, unless given."""
    knows: Knows = "online"
    free_calls: ClassVar[Literal["min-waste", "preserve", "own"]] = "min-waste"
    """Who handles free calls: the min-waste rule or preserve, both beforehand, or the policy by its moves."""
    takes: ClassVar[Takes] = Takes(RULES | {Feature.OWN_COST, Feature.DROP_AND_WORK})
    """The features of an instance that it takes."""
    shares: bool = False  # the engine reuses and forgets contents for it
    foresight: Foresight | None = None
    needs: tuple[str, ...] = ()
    """The switches of the machine that it needs (`evict` only where memory has a limit)."""
    settings: ClassVar[dict[str, Setting]] = {}  # the numbers that its name may give, by name
    drains: bool = False
    """Whether, where all that are ready decode, it lets them go on while memory suffices, whoever ends."""
    tuning: ClassVar[Tuning]
    """How `solvers.improve` searches its numbers, where it does."""

    def __init_subclass__(cls) -> None:
        said = cleandoc(cls.__doc__ or "")
        found = re.search(r"Source: (.*?)(?:;|\.\s+[A-Z]|\.?\Z)", said, re.DOTALL)
        given = {"rule": said.partition("\n")[0], "source": " ".join(found[1].split()) if found else ""}
        for key, text in given.items():
            if text and key not in vars(cls):
                setattr(cls, key, text)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, {self.knows}: {brief(self.rule)})"

    def start(self, view: View) -> None:  # noqa: B027 - a policy without state needs none
        """Prepare for a run; `view` has the machine and the cost, and no request yet."""

    def declines(self, instance: Instance) -> str | None:
        """Say why it cannot run on an instance (None: it can)."""
        missing = self.takes.missing(features_of(instance))
        return f"it is not made for {missing}" if missing else self.why_not(instance.machine)

    def why_not(self, machine: Machine) -> str | None:
        """Say why it cannot run on a machine (None: it can)."""
        enough = machine.memory is None
        missing = [name for name in self.needs if not getattr(machine, name) and not (enough and name == "evict")]
        return f"it needs a machine with {' and '.join(missing)}" if missing else None

    def sharing(self, foresight: Foresight | None = None) -> Self:
        """Return it for shared contents (`heuristics.engine.sharing`)."""
        new = copy(self)
        if Feature.SHARED not in self.takes.features:
            vars(new).update(takes=Takes(self.takes.features | {Feature.SHARED}), shares=True)
        new.foresight = foresight
        return new

    def called(self, name: str, rule: str, source: str | None = None, **switches: Any) -> Self:
        """Return it with other switches, a name, a rule and perhaps a source."""
        vars(self).update(switches, name=name, rule=rule, source=source or self.source)
        return self

    def set(self, name: str) -> Self:
        """Return it with the numbers of a name, `POLICY:key=number,..`, or the first ones in order, `POLICY:number,..`.

        A key may lack its first words if one ends so.

        Raises:
            BadInput: it has no such setting, one is given twice, or the number is out of range.
        """
        new = copy(self)
        new.name = name
        seen, given = set[str](), name.partition(":")[2]
        parts = given.split(",")
        if "=" not in given:
            keys = [*self.settings, *parts[len(self.settings) :]]
            parts = [f"{key}={part}" for key, part in zip(keys, parts, strict=False)]
        for part in parts:
            key, _, text = part.strip().partition("=")
            found = [one for one in self.settings if one == key or one.endswith(f"_{key}")]
            if len(found) != 1:
                raise unknown(f"setting of {name.partition(':')[0]}", key, self.settings)
            if found[0] in seen:
                raise BadInput(f"{name!r}: {found[0]} is given twice")
            setting, default = self.settings[found[0]], getattr(self, found[0])
            kind = float if default is None else type(default)
            try:
                number = kind(text)
            except ValueError:
                number = None
            if setting.words and number not in setting.words:
                raise BadInput(f"{name!r}: {found[0]} is one of {', '.join(setting.words)}, not {text!r}")
            if number is None or not (setting.words or setting.least <= number <= setting.most):
                what = "a number" if kind is float else "an integer"
                most = "" if setting.most == LIMIT else f" and at most {setting.most:g}"
                raise BadInput(f"{name!r}: {found[0]} is {what} of at least {setting.least:g}{most}, not {text!r}")
            seen.add(found[0])
            setattr(new, found[0], number)
        return new

    @abstractmethod
    def decide(self, view: View, plan: Plan) -> None:
        """Fill `plan` for the batch that starts at `view.now`; leave it empty to wait for the next event."""

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches, this one included, the same would be decided if nothing happens in between.

        Asked only about batches of decodes that go on: no request arrives, returns or ends, and none lacks a block.
        """
        return 1

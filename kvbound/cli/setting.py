"""The options of commands that make instances: a machine, a cost, a handling."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, cast

import typer

from costmodels import COSTS, get_cost
from kvbound.cli.common import option
from kvcore.cost import Cost
from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import Handling, Instance, Machine
from kvcore.limits import BUDGETS, Limit
from kvcore.parameters import fraction


def _tokens(flag: str, least: int, help: str) -> Any:
    return Annotated[int | None, option("TOKENS", help, flag, min=least)]


def _most(limit: Limit) -> Any:
    unit, flag = "TOKENS" if limit.words.endswith("tokens") else "N", f"--{limit.key.replace('_', '-')}"
    return Annotated[int | None, option(unit, f"the most {limit.words} in a batch", flag, min=1)]


def _switch(name: str, help: str) -> Any:
    return Annotated[bool | None, typer.Option(f"--{name}/--no-{name}", help=help)]


MACHINE = {
    "memory": _tokens("--memory", 1, "KV memory of the device"),
    "host_memory": _tokens("--host-memory", 0, "swapped KV that the host holds"),
    **{limit.key: _most(limit) for limit in BUDGETS},
    "block": _tokens("--block-size", 1, "KV memory is given out in blocks of so many tokens"),
    "hybrid": _switch("hybrid", "prefill and decode in one batch"),
    "chunked": _switch("chunked", "a prefill may be split"),
    "evict": _switch("evict", "KV may be dropped or swapped outside calls (default: it may)"),
    "partial": _switch("partial", "also a part of a request's KV"),
    "pause": _switch("pause", "a request that holds KV may sit out"),
    "drop_and_work": _switch("drop-and-work", "a batch may drop KV of a request and work on it"),
    "same_batch": _switch("same-batch", "contents computed in a batch are reused in it"),
}
"""The option of each key of the machine; defaults are the cost's machine, or the command's."""
NO_COST = "no --cost and no --memory: each batch lasts 25 ms, on a machine of ours (docs/costmodels.md)"
COST_NAMES = "|".join((*COSTS, "roofline:..", "FILE.json"))
OPTIONS: dict[str, tuple[Any, str | None]] = {
    "cost": (Annotated[str, option(COST_NAMES, "how long a batch takes", "--cost")], "unit"),
    "tick": (Annotated[str | None, option("SECONDS", "length of a tick (unit cost: 1/40)", "--tick")], None),
    **{name: (option, None) for name, option in MACHINE.items()},
}


@dataclass(frozen=True)
class CostSetting:
    """The cost, its tick in seconds, and the machine asked for."""

    cost: Cost
    tick: Fraction
    measured: Machine | None  # the machine that the cost is of
    given: dict[str, int | bool]  # the keys of the machine that were given
    note: str = ""  # what the cost cannot say

    @property
    def assumed(self) -> bool:
        """Whether neither a cost nor a memory was given."""
        return self.cost == Cost.unit() and self.tick == Fraction(1, 40) and "memory" not in self.given

    def machine(self, default: Machine) -> Machine:
        """Return the cost's machine, else `default`, with the given keys changed."""
        with valid("the machine"):
            return Machine(**{**(self.measured or default).model_dump(), **self.given})


Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def gathers(argument: str, options: Mapping[str, tuple[Any, Any]], made: Callable[[dict[str, Any]], Any]) -> Decorator:
    """Return a decorator that gives a command these options as one argument, `made` of their values."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [signature.parameters[name] for name in signature.parameters if name != argument]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        parameters += [
            inspect.Parameter(f"{argument}_{name}", inspect.Parameter.KEYWORD_ONLY, annotation=asked, default=default)
            for name, (asked, default) in options.items()
        ]

        @functools.wraps(command)
        def gathered(**given: Any) -> Any:
            values = {name: given.pop(f"{argument}_{name}") for name in options}
            return command(**{argument: made(values)}, **given)

        vars(gathered)["__signature__"] = signature.replace(parameters=parameters)
        gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return gathered

    return decorate


def setting_of(values: dict[str, Any]) -> CostSetting:
    """Return the setting of the values of `OPTIONS`."""
    cost, tick = values.pop("cost"), values.pop("tick")
    model = get_cost(cost)
    if tick is not None and cost != "unit":
        raise BadInput(f"--tick: a tick of the cost {cost} lasts {model.tick} s; leave --tick out")
    seconds = model.tick if tick is None else fraction("--tick", tick)
    given = {name: value for name, value in values.items() if value is not None}
    return CostSetting(model.make(), seconds, model.machine, given, model.note)


takes_setting = gathers("setting", OPTIONS, setting_of)  # gives a command an argument `setting`
HANDLINGS = ("min-waste", "preserve", "discard", "swap", "free")
CallHandlingOption = Annotated[
    str | None,
    option("|".join(HANDLINGS), "of every call (default: free where the machine evicts, else min-waste)", "--handling"),
]
ClosedLoopOption = Annotated[
    int | None, option("N", "deal the requests to N users, who ask again when answered", "--closed-loop", min=1)
]
ThinkOption = Annotated[str, option("SECONDS", "how long a user of --closed-loop waits before the next", "--think")]


def ticks_of(option: str, text: str, tick: Fraction) -> int:
    """Return seconds as a user types them, in ticks, rounded up."""
    return ceil(fraction(option, text, zero=True) / tick)


def with_handling(instance: Instance, handling: str | None) -> Instance:
    """Return the instance with one handling for all calls, or with InferCept's choice of least waste for each.

    None: free where the machine evicts (the policy chooses), else least waste.
    """
    from heuristics import with_min_waste_handlings

    if handling is None:
        handling = "free" if instance.machine.evict else "min-waste"
    if handling not in HANDLINGS:
        raise BadInput(f"--handling is one of {', '.join(HANDLINGS)}, not {handling!r}")
    if handling in ("min-waste", "free"):
        return with_min_waste_handlings(instance) if handling == "min-waste" else instance
    with valid(f"--handling {handling}"):
        return instance.with_calls_handled(cast(Handling, handling))

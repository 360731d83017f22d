"""Options of searches by name, GROUP.NAME, and the objects of a user's values."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import Field, fields
from functools import wraps
from importlib import import_module
from math import inf
from typing import Any, ParamSpec, TypeVar

from bounds.tuning import Options, chosen
from kvcore.errors import BadInput, did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

GROUPS = {
    "solve": "solvers.messages:SolveOptions",
    "ladder": "bounds.task:LadderOptions",
    "slots": "bounds.slot_solver:SlotOptions",
    "configurations": "bounds.configurations:ConfigurationOptions",
    "speed": "bounds.speed:SpeedOptions",
    "events": "bounds.events:EventOptions",
    "just-in-time": "bounds.just_in_time:TimelyOptions",
    "late-tail": "bounds.tails:TailOptions",
    "slot-dual": "bounds.slot_dual:DualOptions",
    "improve": "solvers.improve:ImproveOptions",
    "steering": "solvers.steering:SteeringOptions",
    "neighbourhoods": "solvers.neighbourhoods.scope:NeighbourhoodOptions",
}
"""The options of each algorithm, as MODULE:CLASS; loaded when asked, as some load a compiler."""


def options_of(group: str) -> type[Options]:
    """Return the class of a group of options."""
    module, _, name = GROUPS[group].partition(":")
    found: type[Options] = getattr(import_module(module), name)
    return found


def names_of(group: str) -> dict[str, Field[Any]]:
    """Return a group's options by their full names (BadInput: no such group)."""
    if group not in GROUPS:
        near = did_you_mean(group, GROUPS)
        raise BadInput(f"no search called {group!r} has options{near}; there are those of {', '.join(GROUPS)}")
    return {f"{group}.{each.name}": each for each in fields(options_of(group))}  # type: ignore[arg-type]


def parsed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name, with numbers or text as numbers; BadInput for a wrong one."""
    return {name: _value(name, _option(name), value) for name, value in given.items()}


def _option(name: str) -> Field[Any]:
    group = name.partition(".")[0]
    known = names_of(group)
    if name not in known:
        raise BadInput(f"no option is called {name!r}{did_you_mean(name, known)}; `kvbound options {group}` lists them")
    return known[name]


def holding(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which these `parsed` options hold."""
    made: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        group, _, key = name.partition(".")
        made.setdefault(group, {})[key] = value
    return chosen(*(options_of(group)(**values) for group, values in made.items()))


def takes_options(function: Callable[P, T]) -> Callable[P, T]:
    """Let the argument `options` of a function, `parsed`, hold while it runs."""

    @wraps(function)
    def run(*args: P.args, **given: P.kwargs) -> T:
        options: Any = given.get("options")
        given["options"] = options = parsed(options or {})
        with holding(options):
            return function(*args, **given)

    return run


def _value(name: str, option: Field[Any], given: Any) -> Any:
    default, texts = _default(option), given.split(",") if isinstance(given, str) else given
    try:
        numbers = [_number(each, type(default[0])) for each in (texts if isinstance(texts, (list, tuple)) else [texts])]
        if len(numbers) == len(default) and all(map(_in_range(option), numbers)):
            return tuple(numbers) if isinstance(option.default, tuple) else numbers[0]
    except (TypeError, ValueError, OverflowError):
        pass
    raise BadInput(f"the option {name} is {range_of(option)}, not {given!r}")


def _default(option: Field[Any]) -> tuple[Any, ...]:
    return option.default if isinstance(option.default, tuple) else (option.default,)


def _number(given: Any, kind: type) -> Any:
    if isinstance(given, bool) or kind(float(given)) != float(given):
        raise ValueError
    return kind(given) if isinstance(given, int) else kind(float(given))


def _in_range(option: Field[Any]) -> Callable[[float], bool]:
    least, most = option.metadata["least"], option.metadata["most"]
    return lambda number: number < inf and number <= most and (number > 0 if least is None else number >= least)


def range_of(option: Field[Any]) -> str:
    """Say which values an option takes."""
    least, most, default = option.metadata["least"], option.metadata["most"], _default(option)
    kind = "whole number" if isinstance(default[0], int) else "number"
    above = "above 0" if least is None else f"of at least {least}"
    one = f"{kind} {above}{'' if most == inf else f' and at most {most}'}"
    return f"a {one}" if len(default) == 1 else f"{len(default)} numbers, each a {one}"


def rows_of_options(group: str | None = None) -> Iterator[tuple[str, str, str, str]]:
    """Yield all options, or those of a group: name, default, effect, values."""
    for each in GROUPS if group is None else [group]:
        for name, one in names_of(each).items():
            shown = ",".join(f"{number:g}" if isinstance(number, float) else str(number) for number in _default(one))
            yield name, shown, one.metadata["effect"], range_of(one)

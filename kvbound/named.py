"""Python functions that take an instance by name or file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from kvbound import comparison
from kvbound.instances import load_instance
from kvcore.certificates import Certificate
from kvcore.errors import BadInput
from kvcore.files import parse, read_text
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from solvers import driver, dual_bound
from solvers import exact as exact_searches
from solvers import improve as improvement
from solvers import simulate as policies

P = ParamSpec("P")
R = TypeVar("R")


def by_name(function: Callable[Concatenate[Instance, P], R]) -> Callable[Concatenate[Instance | str | Path, P], R]:
    """Return the function, which then takes an instance by name or file, too."""

    @wraps(function)
    def called(instance: Instance | str | Path, /, *arguments: P.args, **options: P.kwargs) -> R:
        found = load_instance(str(instance)) if isinstance(instance, str | Path) else instance
        if not isinstance(found, Instance):
            raise BadInput(f"an instance is an Instance, a name or a file, not {instance!r}")
        return function(found, *arguments, **options)

    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    vars(called)["__signature__"] = signature.replace(
        parameters=[first.replace(annotation="Instance | str | Path"), *rest]
    )
    return called


solve = by_name(driver.solve)
simulate = by_name(policies.simulate_policy)
exact = by_name(exact_searches.exact)
improve = by_name(improvement.improve)
bound = by_name(dual_bound.best_bound)
compare = by_name(comparison.compare)


def read(source: str | Path) -> Any:
    """Return the Instance, Schedule or Certificate in a file; or the instance of that name.

    BadInput says what is wrong with it.
    """
    if not Path(source).is_file() or Path(source).suffix in (".csv", ".jsonl"):
        return load_instance(str(source))
    text = read_text(source)
    try:
        kind = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        kind = None
    models: dict[Any, type[Instance | Schedule | Certificate]]
    models = {"kvbound-schedule": Schedule, "kvbound-certificate": Certificate}
    return parse(models.get(kind, Instance), text, str(source))

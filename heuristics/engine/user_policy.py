"""Policies of a user's own, from a Python file."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from heuristics.engine.guarded import guarded
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View
from kvcore.errors import BadInput


def load_policy(text: str) -> Policy:
    """Return the policy of `FILE.py`, or the one of class NAME of `FILE.py:NAME`; the file is run.

    A class counts if it stands in the file, is a `Policy` with nothing left abstract, and needs no arguments. `name` is
    by default the class's name.

    Raises:
        BadInput: there is no such file, it fails, or it has no such class, or several and none is named.
    """
    path, _, wanted = text.partition(".py:")
    path = path if path.endswith(".py") else f"{path}.py"
    found = _policies(_module(path))
    if wanted and wanted not in found:
        raise BadInput(f"{path} has no policy class {wanted!r}; it has {', '.join(found) or 'none'}")
    if not wanted and len(found) != 1:
        which = f"name one as {path}:CLASS ({', '.join(found)})" if found else "one is a subclass of kvbound.Policy"
        raise BadInput(f"{path} has {len(found)} policy classes; {which}")
    return _made(found[wanted or next(iter(found))], path)


def as_policy(thing: object) -> Policy:
    """Return a policy as it is, one of a class, or one of a function; BadInput for anything else."""
    if isinstance(thing, Policy):
        return thing
    if isinstance(thing, type) and issubclass(thing, Policy):
        return _made(thing, getattr(sys.modules.get(thing.__module__), "__file__", None) or thing.__module__)
    if not callable(thing) or isinstance(thing, type):
        raise BadInput(f"a policy is a name, a Policy, a class of them or a function, not {thing!r}")
    return Given(thing)


class Given(Policy):
    """The policy of a function: of a view and a plan, as `decide`, or of a job, the key of an order."""

    knows = "predictions"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.rule = (function.__doc__ or "one's own").strip().partition("\n")[0]
        self.source = "one's own"
        self.decides = len(inspect.signature(function).parameters) > 1

    def decide(self, view: View, plan: Plan) -> None:
        """Ask the function."""
        if self.decides:
            self.function(view, plan)
        else:
            plan.fill(sorted(view.ready, key=self.function))


def _made(kind: type[Policy], path: str) -> Policy:
    with guarded(path, lambda line: BadInput(f"{path}: {kind.__name__} cannot be made: {line}")):
        policy = kind()
        said = {"name": kind.__name__.lower(), "rule": "one's own", "source": "one's own"}
        vars(policy).update({key: text for key, text in said.items() if not hasattr(policy, key)})
    return policy


def _module(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise BadInput(f"there is no file {path!r} with a policy")
    spec = importlib.util.spec_from_file_location(f"user_policy_{Path(path).stem}", path)
    assert spec is not None  # for mypy: the name ends in .py
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with guarded(path, lambda line: BadInput(f"{path} fails: {line}")):
        spec.loader.exec_module(module)
    return module


def _policies(module: ModuleType) -> dict[str, type[Policy]]:
    classes = inspect.getmembers(module, inspect.isclass)
    return {
        name: kind
        for name, kind in classes
        if issubclass(kind, Policy) and kind.__module__ == module.__name__ and not inspect.isabstract(kind)
    }

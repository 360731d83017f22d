"""Modules of kernels as plain Python, beside the compiled ones."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace


def same(function):
    """Return a function as it is."""
    return function


def plain(*names: str) -> ModuleType:
    """Return the last of some modules, each of which sees those before it as modules that numba has not compiled."""
    held = {name: sys.modules[name] for name in ("kvcore.compiled", *names)}
    packages = {name: sys.modules[name.rpartition(".")[0]] for name in names}
    sys.modules["kvcore.compiled"] = SimpleNamespace(compiled=same, inlined=same)
    try:
        for name in names:
            spec = importlib.util.find_spec(name)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            setattr(packages[name], name.rpartition(".")[2], module)
            spec.loader.exec_module(module)
        return module
    finally:
        sys.modules.update(held)
        for name in names:
            setattr(packages[name], name.rpartition(".")[2], held[name])


LABELS, FRONTIER = "kvcore.certificates.labels", "kvcore.certificates.frontier"

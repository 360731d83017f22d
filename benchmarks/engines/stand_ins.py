"""Stand-ins for what an engine's scheduler imports and never needs: devices, tensors, connectors, configuration."""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class Loose(SimpleNamespace):
    """Settings by name; one that is not given is None, as other releases ask for others."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _Named(type):
    """A class whose attributes are such classes; it stands in a union, an index and a loop."""

    def __getattr__(cls, name: str) -> Any:
        return _given(cls, name)

    def __or__(cls, other: object) -> Any:
        return object

    __ror__ = __or__

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


def _given(holder: Any, name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    setattr(holder, name, stand_in(name))
    return getattr(holder, name)


def stand_in(name: str) -> Any:
    """Return a class that is called, subclassed, entered and used as a decorator, and does nothing."""
    body = {
        "__init__": lambda self, *_, **__: None,
        "__getattr__": _given,
        "__call__": lambda self, *given, **_: given[0] if len(given) == 1 and callable(given[0]) else None,
        "__enter__": lambda self: self,
        "__exit__": lambda self, *_: False,
        "__iter__": lambda self: iter(()),
        "__bool__": lambda self: False,
        "__class_getitem__": classmethod(lambda cls, item: cls),
        "__module__": "stand_ins",
    }
    return _Named(name, (), body)


class _Module(ModuleType):
    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        return _given(self, name)


class Engine(MetaPathFinder, Loader):
    """Imports the named modules of an unpacked engine, and stand-ins for the rest of its package.

    A name of `real` that ends with a dot stands for all modules below it. No file of the engine is changed.
    The packages of `absent` are stand-ins as a whole.
    """

    def __init__(self, root: Path, package: str, real: Sequence[str], absent: Sequence[str] = ()) -> None:
        self.root, self.package, self.real, self.absent = root, package, real, absent
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where a module of the engine is."""
        if name.partition(".")[0] in self.absent:
            return ModuleSpec(name, self, is_package=True)
        if name.partition(".")[0] != self.package:
            return None
        base = self.root.joinpath(*name.split("."))
        for one in self.real:
            if name == one or (one.endswith(".") and name.startswith(one)):
                for file, below in ((base.with_suffix(".py"), None), (base / "__init__.py", [str(base)])):
                    if file.exists():
                        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=below)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a stand-in; real modules may lie below it."""
        module = _Module(spec.name)
        module.__path__ = [str(self.root.joinpath(*spec.name.split(".")))]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the stand-in as it is."""

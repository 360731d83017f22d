"""`compiled`: numba's compilation of a function over arrays; the function itself where numba is not installed.

Such a function makes no array, and calls nothing that returns one: numba's reference counts took two thirds of the time
where functions pass named tuples of arrays on. `allocating` is for those that do; `inlined` becomes part of its
callers. For checkers, both give the same integers.

Compiled code is kept on disk. It contains its callees, constants, and places of fields from files of `sources`, and is
used again only while these are unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("kvcore", "heuristics", "bounds", "solvers")
"""Packages with compiled code or its types."""
WORDS = b"kvcore.compiled", b"NamedTuple", b"namedtuple"
"""Marks of a file with compiled code or its types."""


def sources() -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file behind compiled code."""
    root = Path(__file__).parents[1]
    for file in sorted(file for package in PACKAGES for file in (root / package).rglob("*.py")):
        content = file.read_bytes()
        if any(word in content for word in WORDS):
            yield file.relative_to(root).as_posix(), content


@cache
def sources_hash() -> str:
    """Return the SHA-256 of this file and all `sources`."""
    digest = sha256(Path(__file__).read_bytes())
    for name, content in sources():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@cache
def _kept() -> Any:
    import numba
    from numba.core.caching import FunctionCache, IndexDataCacheFile

    class Files(IndexDataCacheFile):  # type: ignore[misc]
        def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
            super().__init__(cache_path, filename_base, source_stamp)
            self._version = numba.__version__, source_stamp, sources_hash()

        def save(self, key: Any, data: Any) -> None:
            with suppress(OSError):
                if sources_hash.__wrapped__() == sources_hash():
                    super().save(key, (self._version, key, data))

        def load(self, key: Any) -> Any:
            """Return kept code, or None where the index names other code."""
            try:
                kept = super().load(key)
            except (ImportError, AttributeError):  # it names a type that has moved since
                return None
            return kept[2] if kept and kept[:2] == (self._version, key) else None

    class Kept(FunctionCache):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            """Raise RuntimeError without a folder to write to, OSError where sources are not files."""
            super().__init__(function)
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            """Tell functions that were made with others from each other: numba would by numbers drawn in each run."""
            given = [cell.cell_contents for cell in self._py_func.__closure__ or ()]
            names = [f"{one.__module__}.{one.__qualname__}" if callable(one) else repr(one) for one in given]
            return sig, codegen.magic_tuple(), tuple(names)

    return Kept


class _Compiled:
    """A function that is compiled when it is first called: loading numba takes 0.3 s."""

    def __init__(self, function: Any, how: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._how = how
        sources_hash()  # of the files as they are loaded

    @cached_property
    def _made(self) -> Any:
        import numba

        made = numba.njit(**self._how)(self.__wrapped__)
        with suppress(RuntimeError, OSError):
            made._cache = _kept()(self.__wrapped__)
        return made

    def __call__(self, *given: Any) -> Any:
        return self._made(*given)

    def __getattr__(self, name: str) -> Any:
        """Return what numba's own function has: for numba it is one."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._made, name)


def _how(**how: Any) -> Callable[[Any], Any]:
    return (lambda function: _Compiled(function, how)) if find_spec("numba") else lambda function: function


compiled, allocating = _how(_nrt=False), _how()
inlined = _how(inline="always")

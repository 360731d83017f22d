"""`compiled`: what numba makes of a plain function over arrays; the function itself where numba is not installed.

Such a function makes no array, and calls nothing that returns one: numba need not count who uses which, which took two
thirds of the time where functions pass named tuples of arrays on. `allocating` is for those that do; `inlined` is made
part of what calls it; `fast` may change the order of sums, for what only proposes.

For what a checker computes, both give the same integers, which a test compares.
"""

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
    from numba.core.caching import IndexDataCacheFile

    def _moved(load: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Let code that was kept be made anew where it names a file or a type that has moved since, as in an update."""

        def loaded(index: Any) -> Any:
            try:
                return load(index)
            except (ImportError, AttributeError):
                return {}

        return loaded

    IndexDataCacheFile._load_index = _moved(IndexDataCacheFile._load_index)

    def _kept(**how: Any) -> Callable[[Any], Any]:
        """Return what compiles a function, and keeps the code where there is a folder to write to."""

        def compile(function: Any) -> Any:
            try:
                return njit(cache=True, **how)(function)
            except RuntimeError:
                return njit(**how)(function)

        return compile

    compiled: Callable[[Any], Any] = _kept(_nrt=False)
    allocating: Callable[[Any], Any] = _kept()
    inlined: Callable[[Any], Any] = _kept(inline="always")
    fast: Callable[[Any], Any] = _kept(fastmath=True, _nrt=False)
except ImportError:  # pragma: no cover
    compiled = allocating = inlined = fast = lambda function: function

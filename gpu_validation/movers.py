"""Two ways to copy blocks between the pools, behind one interface: `move(cache, pieces, out)` on the current stream.

Runs of neighbouring blocks are one copy; a part of a block is a copy for each layer, side and head, whose tokens lie
together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache as once

import torch
from torch import Tensor

from costmodels.models import TINY
from gpu_validation.allocator import Piece
from gpu_validation.cache import Cache
from gpu_validation.measure import cuda

ALL = slice(None)
Mover = Callable[[Cache, list[Piece], bool, slice], None]
"""The last is which layers."""


def runs(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    """Return the whole blocks among the pieces as few runs: (first on the device, first on the host, blocks)."""
    found: list[tuple[int, int, int]] = []
    for device, host in sorted((piece.device, piece.host) for piece in pieces if piece.whole):
        first, there, blocks = found[-1] if found else (-1, -1, 0)
        if found and (device, host) == (first + blocks, there + blocks):
            found[-1] = (first, there, blocks + 1)
        else:
            found.append((device, host, 1))
    return found


def copies(cache: Cache, pieces: list[Piece], layers: slice) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (device side, host side) of every copy, contiguous tensors of one shape."""
    for device, host, blocks in runs(pieces):
        if layers == ALL:
            yield cache.pool[device : device + blocks], cache.host[host : host + blocks]
        else:
            yield from ((cache.pool[device + k, layers], cache.host[host + k, layers]) for k in range(blocks))
    for piece in pieces:
        if not piece.whole:
            tokens = slice(piece.first, piece.last)
            sides = (cache.pool[piece.device, layers].flatten(0, 2), cache.host[piece.host, layers].flatten(0, 2))
            yield from zip(*(side[:, tokens].unbind() for side in sides), strict=True)


def by_run(cache: Cache, pieces: list[Piece], out: bool, layers: slice = ALL) -> None:
    """One asynchronous copy a run; what the CPU does too."""
    for device, host in copies(cache, pieces, layers):
        source, target = (device, host) if out else (host, device)
        target.copy_(source, non_blocking=True)


class _Attributes(ctypes.Structure):
    """CUmemcpyAttributes: the order in which the source may be read, two hints of location (unused), flags."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("source", ctypes.c_int * 2),
        ("target", ctypes.c_int * 2),
        ("flags", ctypes.c_uint),
    )


_IN_STREAM_ORDER = 1


@once
def _batch_copy() -> Callable[..., int] | None:
    """Return cuMemcpyBatchAsync of the driver, None where it is not there: that of CUDA 13, or the one of 12.8.

    The older one has one argument more, before the stream: where the index of a copy that fails goes.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    given = [pointer, pointer, pointer, size, pointer, pointer, size]
    for name, extra in (("cuMemcpyBatchAsync_v2", []), ("cuMemcpyBatchAsync", [ctypes.byref(size())])):
        if (function := getattr(driver, name, None)) is not None:
            function.restype, function.argtypes = ctypes.c_int, [*given, *[pointer] * len(extra), pointer]
            return lambda *arguments: int(function(*arguments[:-1], *extra, arguments[-1]))
    return None


def by_batch(cache: Cache, pieces: list[Piece], out: bool, layers: slice = ALL) -> None:
    """All copies in one call of the driver; needs a stream that is not the default one."""
    function = _batch_copy()
    if function is None:
        raise RuntimeError("the driver has no cuMemcpyBatchAsync")
    pairs = list(copies(cache, pieces, layers))
    n = len(pairs)
    pointers, sizes = ctypes.c_uint64 * n, ctypes.c_size_t * n
    device, host = pointers(*(a.data_ptr() for a, _ in pairs)), pointers(*(b.data_ptr() for _, b in pairs))
    target, source = (host, device) if out else (device, host)
    attributes, first = _Attributes(order=_IN_STREAM_ORDER), ctypes.c_size_t(0)
    stream = torch.cuda.current_stream(cache.pool.device).cuda_stream
    lengths = sizes(*(a.nbytes for a, _ in pairs))
    code = function(target, source, lengths, n, ctypes.byref(attributes), ctypes.byref(first), 1, stream)
    if code:
        raise RuntimeError(f"cuMemcpyBatchAsync failed with CUresult {code} for {n} copies")


@once
def movers(device: torch.device) -> dict[str, Mover]:
    """Return the movers of this device by name; one that cannot copy a block there and back is none."""
    found: dict[str, Mover] = {"runs": by_run}
    if device.type == "cuda" and _batch_copy() is not None:
        cache = Cache(TINY, 2, 2, 2, torch.float32, device)
        cache.randomize(0)
        with suppress(RuntimeError), cuda.stream(cuda.Stream()):
            by_batch(cache, [Piece(0, 0, 0, 1, 0, 2, True)], True)
            by_batch(cache, [Piece(0, 0, 1, 1, 0, 2, True)], False)
            cuda.synchronize()
            if torch.equal(cache.pool[0], cache.pool[1]):
                found["batch"] = by_batch
    return found

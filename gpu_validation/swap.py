"""Swaps beside the work: how blocks are copied between the pools, two streams of their own on a GPU, and who waits.

There are two ways to copy, behind one interface: `move(cache, pieces, out, layers)` on the current stream. Runs of
neighbouring blocks are one copy; a part of a block is a copy for each layer, side and head, whose tokens lie together.

A transfer waits for the work before its batch (which read or wrote its blocks) and for the transfers that its plan
names. The work of a batch waits for the transfers that its plan names: those that bring the KV that it reads, and those
that have to leave a block before it is written again. On the CPU everything happens in order at once.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache as once

import torch
from torch import Tensor

from costmodels.models import TINY
from gpu_validation.allocator import Piece
from gpu_validation.cache import Cache, layer_groups
from gpu_validation.measure import DeviceClock, Mark, cuda
from gpu_validation.plan import Transfer

ALL = slice(None)
Mover = Callable[[Cache, list[Piece], bool, slice], None]  # the last is which layers


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


@dataclass
class Swapper:
    """The transfers of one replay. `out` and `back` make them, `wait` lets the work wait for them."""

    cache: Cache
    mover: Mover
    clock: DeviceClock
    streams: tuple[torch.cuda.Stream, torch.cuda.Stream] | None = None  # out, in; None on a CPU
    marks: tuple[list[tuple[Mark, Mark]], list[tuple[Mark, Mark]]] = field(default_factory=lambda: ([], []))
    """Start and end of every transfer out, and of every transfer in."""
    parts: list[Mark] = field(default_factory=list)  # the ends of the groups of layers of the last transfer in

    def start(self, transfer: Transfer, direction: int, parts: int = 1) -> None:
        """Start a transfer to the host (direction 0), or to the device (1), in so many groups of layers."""
        with self._on_stream(direction):
            self.wait(transfer.after_out, transfer.after_in)
            start = self.clock.mark()
            self.parts = []
            for layers in layer_groups(self.cache.pool.shape[1], parts) if parts > 1 else [ALL]:
                self.mover(self.cache, transfer.pieces, direction == 0, layers)
                self.parts.append(self.clock.mark())
            self.marks[direction].append((start, self.parts[-1]))

    def _on_stream(self, direction: int) -> AbstractContextManager[object]:
        """Make the stream of the direction the current one, behind all the work that was started so far."""
        if self.streams is None:
            return nullcontext()
        self.streams[direction].wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.streams[direction])

    def wait(self, *numbers: int) -> None:
        """Let the current stream wait for the transfers out and in of these numbers and all before them (-1: none)."""
        for number, marks in zip(numbers, self.marks, strict=True):
            if number >= 0 and self.streams is not None:
                torch.cuda.current_stream().wait_event(marks[number][1])

    def wait_for_part(self, part: int) -> None:
        """Let the work wait for a group of layers of the last transfer in."""
        if self.streams is not None:
            torch.cuda.current_stream().wait_event(self.parts[part])

    def wait_for_all(self) -> None:
        """Let the work wait for all transfers started so far: synchronous swapping."""
        self.wait(*(len(marks) - 1 for marks in self.marks))

    def seconds(self) -> tuple[list[float], list[float]]:
        """Return the seconds of every transfer out and of every transfer in; only when all have happened."""
        out, back = ([self.clock.seconds(start, end) for start, end in marks] for marks in self.marks)
        return out, back

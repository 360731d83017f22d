"""Paged attention beside its peers on a grid of cases: checked, then timed.

A sample runs enough layers to exceed the device's cache. Peers take turns (A B B A).
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch

from costmodels.models import Model
from gpu_validation.attention_case import TOLERANCE, AttentionCase, CaseData
from gpu_validation.measure import REPEATS, WARMUP, interleaved, spread
from gpu_validation.peers import Peer, Run, Unsupported, one_line

FLUSH = 2**27  # bytes of KV that a sample reads at least on a GPU, by taking more layers: more than twice its cache
MOST_LAYERS = 128  # so that all launches of a sample fit into the queue of the driver (1024) while the GPU sleeps
LARGE = 500_000_000
SHARE = 0.8  # of the free memory, what a case may take
BATCHES, CONTEXTS = (1, 8, 64, 256), (512, 2048, 8192)
PROMPTS = (512, 1024, 2048, 4096, 8192)
CHUNKS = ((512, 1536), (2048, 6144))
QUICK_DECODES, QUICK_PROMPTS = ((1, 2048), (64, 2048), (64, 8192), (256, 2048)), (2048, 8192)
PREFILLED = 8192  # tokens that a prefill launch has at least, by taking more requests


def gpu_cases(model: Model, quick: bool = False) -> list[AttentionCase]:
    """Return the grid of one model, large cases first: decodes, prompts, chunks at an offset, mixed.

    `quick`: only these.
    """
    large = _cases(model, QUICK_DECODES, QUICK_PROMPTS, CHUNKS[-1:])
    large.append(AttentionCase("mixed", model, ((512, 1536), *((1, 2047),) * 63)))
    known = {case.work for case in large}
    more = [case for case in _cases(model, product(BATCHES, CONTEXTS), PROMPTS, CHUNKS) if case.work not in known]
    return large if quick else [*large, *(replace(case, large=False) for case in more)]


def _cases(
    model: Model, decodes: Iterable[tuple[int, int]], prompts: Iterable[int], chunks: Iterable[tuple[int, int]]
) -> list[AttentionCase]:
    cases = [AttentionCase("decode", model, ((1, context - 1),) * batch) for batch, context in decodes]
    cases += [AttentionCase("prefill", model, ((c, 0),) * max(1, PREFILLED // c)) for c in prompts]
    return cases + [AttentionCase("chunk", model, ((c, m),)) for c, m in chunks]


def cpu_cases(model: Model) -> list[AttentionCase]:
    """Return a case of each kind that takes a CPU milliseconds."""
    return [
        AttentionCase("decode", model, ((1, 47),) * 3),
        AttentionCase("prefill", model, ((40, 0),) * 2),
        AttentionCase("chunk", model, ((16, 24),)),
        AttentionCase("mixed", model, ((16, 24), (1, 39), (1, 7))),
    ]


def bench(
    cases: Sequence[AttentionCase],
    peers: Sequence[Peer],
    device: torch.device,
    dtype: torch.dtype,
    limits: Mapping[str, float],
    repeats: int = REPEATS,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each case and peer, ours first. `limits` are `bandwidth.peaks`."""
    for case in cases:
        try:
            rows = bench_case(case, peers, device, dtype, repeats)
        except Exception as failed:  # out of memory, a kernel that broke while it was timed: the other cases go on
            rows = [row | {"error": one_line(failed)} for row in _rows(case, peers, dtype)]
        yield from compared(rows, limits)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def bench_case(
    case: AttentionCase, peers: Sequence[Peer], device: torch.device, dtype: torch.dtype, repeats: int = REPEATS
) -> list[dict[str, Any]]:
    """Prepare, check and time every peer on one case, ours first."""
    rows = _rows(case, peers, dtype)
    layers = layers_for(case, dtype.itemsize, device, any(peer.copies for peer in peers))
    if layers == 0:
        return [row | {"error": "does not fit into the memory of the device"} for row in rows]
    data = CaseData.make(case, device, dtype, layers)
    ready: dict[str, Run] = {}
    for peer, row in zip(peers, rows, strict=True):
        found = prepared(peer, data)
        if isinstance(found, str):
            row["error"] = found
        else:
            ready[peer.name], row["relative_error"] = found
    runs = {name: partial(_run_all, run, layers) for name, run in ready.items()}
    times = interleaved(runs, device, repeats, WARMUP)
    return [row | _timed(case, dtype, layers, times[row["peer"]]) if row["peer"] in times else row for row in rows]


def layers_for(case: AttentionCase, size: int, device: torch.device, copies: bool) -> int:
    """Return the layers of a sample (0: not even one fits with the copies)."""
    if device.type != "cuda":
        return 2
    free, _ = torch.cuda.mem_get_info(device)
    fits = int(SHARE * free) // (case.kv_bytes(size) * (3 if copies else 1))
    return min(max(2, -(-FLUSH // case.kv_bytes(size))), MOST_LAYERS, fits)


def prepared(peer: Peer, data: CaseData) -> tuple[Run, float] | str:
    """Return what runs the case and its error on the first and the last layer; or a line on a failure.

    A result fails if it differs from the twin's by more than the tolerance of the dtype, or is not a number.
    """
    try:
        run = peer.prepare(data)
        error = max(data.error(run(layer), layer) for layer in {0, data.layers - 1})
    except Unsupported as unsupported:
        return str(unsupported)
    except Exception as failed:  # whatever a library raises is the row that says so
        return one_line(failed)
    allowed = TOLERANCE[data.kv.dtype]
    return (run, error) if error <= allowed else f"wrong: relative error {error:.1e}, more than {allowed:.1e}"


def _run_all(run: Run, layers: int) -> None:
    for layer in range(layers):
        run(layer)


def _rows(case: AttentionCase, peers: Sequence[Peer], dtype: torch.dtype) -> list[dict[str, Any]]:
    model = case.model
    about = {
        "case": case.name, "kind": case.kind, "model": model.name, "heads": model.heads, "kv_heads": model.kv_heads,
        "head_width": model.head_width, "block": case.block, "dtype": str(dtype).removeprefix("torch."),
        "requests": len(case.work), "rows": case.rows, "longest": max(case.lengths),
        "kv_bytes": case.kv_bytes(dtype.itemsize), "flop": case.flops,
    }  # fmt: skip
    return [about | {"peer": peer.name, "ours": peer is peers[0]} for peer in peers]


def _timed(case: AttentionCase, dtype: torch.dtype, layers: int, samples: Sequence[float]) -> dict[str, Any]:
    found = spread([seconds / layers for seconds in samples])
    rates = {"bytes_per_second": case.kv_bytes(dtype.itemsize), "flop_per_second": case.flops}
    return {"layers": layers, **found} | {name: n / found["seconds_median"] for name, n in rates.items()}


def compared(rows: Sequence[dict[str, Any]], limits: Mapping[str, float]) -> list[dict[str, Any]]:
    """Add to each timed row its shares of the limits; to ours the best peer's median over ours, `over_best_peer`."""
    timed = [row for row in rows if "seconds_median" in row]
    for row in timed:
        for limit, unit in (("read", "bytes"), ("copy", "bytes"), ("matmul", "flop")):
            row[f"of_{limit}"] = row[f"{unit}_per_second"] / limits[limit] if limit in limits else None
    best = min((row for row in timed if not row["ours"]), key=lambda row: float(row["seconds_median"]), default=None)
    for row in timed:
        if row["ours"] and best is not None:
            row["best_peer"] = best["peer"]
            row["over_best_peer"] = best["seconds_median"] / row["seconds_median"]
    return list(rows)

"""`kvbound kernels`."""

from __future__ import annotations

import statistics
import time
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from costmodels.models import get_model
from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import JsonOption, emit, option, table
from kvbound.cli.gpu import BackendOption, DeviceOption, DtypeOption, get_backend, get_dtype
from kvbound.cli.progress import LiveLine
from kvbound.tables import Row, Rows, milliseconds, percent
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text

if TYPE_CHECKING:
    from gpu_validation.attention_case import AttentionCase
    from gpu_validation.peers import Peer

SHAPES = ("llama-3.2-1b", "llama-3-8b")  # the models whose heads are measured on a GPU unless one is named
DRY = "a dry run on a CPU: these are no numbers of a GPU"


def kernels(
    device: DeviceOption = "cuda",
    model: Annotated[str | None, option("NAME", f"whose heads ({', '.join(SHAPES)})")] = None,
    backend: BackendOption = None,
    dtype: DtypeOption = None,
    peers: Annotated[str, option("NAME[,NAME..]|all|none", "sdpa, flashinfer")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="the large shapes only")] = False,
    time_limit: Annotated[float | None, option("S", "start no case after so many seconds", min=1)] = None,
    json: JsonOption = None,
) -> int:
    """Measure bandwidths, and paged attention beside other kernels."""
    check_writable(json)
    opened, kind = get_backend(device, backend)
    from gpu_validation.attention_bench import bench
    from gpu_validation.bandwidth import bandwidths, peaks
    from gpu_validation.devices import open_backend
    from gpu_validation.measure import facts
    from gpu_validation.peers import ours

    target, numbers = opened.device, get_dtype(dtype, opened.device)
    cases = choose_cases(model, target.type == "cpu", quick)
    compared = [ours(lambda: open_backend(device, kind), f"ours, {kind}"), *choose_peers(peers)]
    about, rows, interrupted, started = facts(target), list[dict[str, Any]](), False, time.monotonic()
    with LiveLine("bandwidths"):
        rates = bandwidths(target)

    def payload() -> dict[str, Any]:
        return {
            "dry_run": target.type == "cpu",
            "bandwidths": [{**row, **about} for row in rates],
            "rows": [{**row, **about} for row in rows],
            "summary": summary(rows),
        }

    try:
        with LiveLine(f"attention, {len(cases)} cases"):
            for case in cases:
                if time_limit is None or time.monotonic() - started < time_limit:
                    rows += bench([case], compared, target, numbers, peaks(rates))
                    if json not in (None, "-"):
                        write_text(json, dumps(payload(), indent=1))
    except KeyboardInterrupt:
        interrupted = True
    emit(json, payload(), lambda console: show(console, about, rates, rows, summary(rows)))
    return EXIT_INTERRUPTED if interrupted else 0


def choose_cases(model: str | None, on_cpu: bool, quick: bool) -> list[AttentionCase]:
    """Return the grid of one model, or of the usual ones, large cases first; on a CPU a few tiny ones."""
    from gpu_validation.attention_bench import cpu_cases, gpu_cases

    if on_cpu:
        return cpu_cases(get_model(model or "tiny"))
    cases = [case for shape in ([model] if model else SHAPES) for case in gpu_cases(get_model(shape), quick)]
    return sorted(cases, key=lambda case: not case.large)


def choose_peers(names: str) -> list[Peer]:
    """Return the peers named; BadInput for an unknown one."""
    from gpu_validation.peers import PEERS

    if names in ("all", "none"):
        return list(PEERS.values()) if names == "all" else []
    unknown = [name for name in names.split(",") if name not in PEERS]
    if unknown:
        raise BadInput(f"--peers: no peer is called {unknown[0]!r}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in names.split(",")]


def show(console: Console, about: Row, rates: Rows, rows: Rows, ours: Row) -> None:
    """Print the device, the bandwidths, a line for each case and peer, and our standing."""
    console.print(f"{about['device']}, torch {about['torch']}, triton {about['triton']}, {about['date']}")
    if about["device_type"] == "cpu":
        console.print(DRY)
    cells = [
        (row["quantity"], _scaled(row["per_second"], row["unit"]), milliseconds(row["seconds_median"])) for row in rates
    ]
    console.print(table(("quantity", "rate", "median, ms"), cells, right=(1, 2)))
    console.print()
    columns = ("model", "case", "kernel", "median, ms", "10-90 %", "rate", "of limit", "ours / best", "")
    console.print(table(columns, [_cells(row) for row in rows], right=(3, 4, 5, 6, 7)))
    console.print("of limit: decodes against measured reading, others against the measured matrix product")
    console.print("ours / best: the time of the fastest peer over ours, above 1 where ours is faster")
    if ours["of_read"]:
        least, median, most = (f"{100 * share:.1f}" for share in ours["of_read"])
        console.print(f"large decodes: {least} to {most} % of the measured reading, median {median} %")
    if ours["compared"]:
        won = f"{ours['won']} of {ours['compared']} cases with a peer (least {ours['least_over_best_peer']:.2f})"
        console.print(f"ours is at least as fast as every peer in {won}")


def _cells(row: Row) -> list[object]:
    head = [row["model"], row["case"], row["peer"]]
    if "seconds_median" not in row:
        return [*head, None, None, None, None, None, row["error"]]
    reads = row["kind"] == "decode"
    rate = _scaled(row["bytes_per_second"], "bytes") if reads else _scaled(row["flop_per_second"], "FLOP")
    share = row["of_read"] if reads else row["of_matmul"]
    over = row.get("over_best_peer")
    return [
        *head, milliseconds(row["seconds_median"]),
        f"{milliseconds(row['seconds_p10'])} - {milliseconds(row['seconds_p90'])}", rate,
        percent(share), None if over is None else f"{over:.2f}", "",
    ]  # fmt: skip


def _scaled(rate: float, unit: str) -> str:
    return f"{rate / 1e9:.4g} GB/s" if unit == "bytes" else f"{rate / 1e12:.4g} TFLOP/s"


def summary(rows: Rows) -> dict[str, Any]:
    """Return our rows in numbers; None where nothing was timed.

    `large_decodes` read at least LARGE bytes a launch, with the least, median and greatest share of the measured
    reading rate; `compared` counts the cases with a timed peer, `won` those without a faster one;
    `least_over_best_peer` is the worst.
    """
    ours = [row for row in rows if row["ours"] and "seconds_median" in row]
    from gpu_validation.attention_bench import LARGE

    shares = sorted(
        row["of_read"] for row in ours if row["kind"] == "decode" and row["kv_bytes"] >= LARGE and row["of_read"]
    )
    over = [row["over_best_peer"] for row in ours if "over_best_peer" in row]
    rates = [row["flop_per_second"] for row in ours if row["kind"] == "prefill"]
    return {
        "timed": len(ours), "large_decodes": len(shares),
        "of_read": [shares[0], statistics.median(shares), shares[-1]] if shares else None,
        "prefill_flop_per_second": max(rates, default=None), "compared": len(over),
        "won": sum(share >= 1 for share in over), "least_over_best_peer": min(over, default=None),
    }  # fmt: skip

"""`kvbound calibrate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from costmodels.cost_files import cost_file
from costmodels.fitted import Fit
from costmodels.models import get_model
from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import OUT, JsonOption, PlotOption, as_file, emit, option, table
from kvbound.cli.costs import fit_table
from kvbound.cli.gpu import BackendOption, DeviceOption, DtypeOption, get_backend, get_dtype
from kvbound.cli.progress import LiveLine, drawing
from kvbound.plots import plot_calibration
from kvbound.tables import Row, Rows, milliseconds, percent
from kvcore.errors import BadInput
from kvcore.files import check_writable
from kvcore.instance import Machine
from kvcore.parameters import fraction

if TYPE_CHECKING:
    from gpu_validation.calibration import Measured, Point
    from gpu_validation.engine import Engine

CPU_MEMORY = 12_288  # tokens of KV on a CPU, unless given
VERSIONS = ("kvbound", "python", "torch", "triton", "cuda", "driver")
COUNTS = ("tokens", "decode_requests", "prefill_requests", "decode_kv", "prefill_kv", "swap_out_tokens",
          "swap_in_tokens")  # fmt: skip
Floor = Callable[[Any], float]


def calibrate(
    model: Annotated[str | None, option("NAME", "(default: llama-3.2-1b, on a CPU small)")] = None,
    device: DeviceOption = "cuda",
    dtype: DtypeOption = None,
    backend: BackendOption = None,
    tick: Annotated[str, option("SECONDS", "of the cost model")] = "1/1000000",
    memory: Annotated[int | None, option("TOKENS", "KV on the device (default: what fits)", min=1)] = None,
    block: Annotated[int, option("TOKENS", "of a block of the cache", min=1)] = 16,
    repeats: Annotated[int, option("N", "runs of each batch", min=2, max=1000)] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="a coarser grid")] = False,
    seed: Annotated[int, option("N", "of the weights and of what is held out", min=0)] = 0,
    time_limit: Annotated[float, option("S", "time no batch after so many seconds", min=1)] = 3600,
    out: Annotated[str | None, option("COST.json", "write the cost model there", *OUT)] = None,
    plot: PlotOption = None,
    json: JsonOption = None,
) -> int:
    """Time batches on this device, and fit a cost model; Ctrl-C fits it to those that were timed."""
    check_writable(out, plot, json)
    seconds_of_tick = fraction("--tick", tick)
    shape = get_model(model or ("small" if device == "cpu" else "llama-3.2-1b"))
    opened, name = get_backend(device, backend)
    numbers = get_dtype(dtype, opened.device)
    from gpu_validation.bandwidth import bandwidths, floor_of, peaks, swap_rows
    from gpu_validation.calibration import fitted, measure
    from gpu_validation.engine import Engine
    from gpu_validation.measure import facts, watched

    engine = Engine(shape, opened, dtype=numbers, seed=seed)
    capacity = capacity_of(engine, memory, block)
    points = choose_points(engine, capacity, quick, block)
    about = {**facts(opened.device), "backend": name, "dtype": str(numbers).removeprefix("torch.")}
    with LiveLine("bandwidths"):
        rates = bandwidths(opened.device)
    with LiveLine("calibrating") as line:
        with watched(opened.device) as clocks:
            measured, interrupted = measure(engine, points, repeats, seed, time_limit, block=block, told=line.part)
        about |= clocks
    try:
        found = fitted(measured, opened.device.type, seed)
    except BadInput:  # too few
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    swaps = swap_rows(measured, shape, peaks(rates), numbers.itemsize)
    if opened.device.type == "cpu":  # where a swap is a copy in memory, and goes over no link
        swaps = [row | {"of_link": None} for row in swaps]
    rows = point_rows(measured, found, floor_of(shape, peaks(rates), numbers.itemsize))
    fit = cost_file(
        found, name=f"{shape.name} on {about['device']}"[:100], tick=seconds_of_tick, model=shape.name, device=about,
        machine=machine_of(engine, capacity, points, block), observations=[one.observation for one in measured],
        versions={name: str(about[name]) for name in VERSIONS if about.get(name)},
    )  # fmt: skip
    payload = {
        "device": about, "model": shape.name, "memory": capacity, "bandwidths": rates, "rows": rows, "swaps": swaps,
        "fit": found.report.model_dump(mode="json"),
    }  # fmt: skip
    emit(
        json, payload, lambda console: show(console, about, found, rows, swaps),
        (out, as_file(fit)), (plot, drawing(lambda file: plot_calibration(rows, path=file))),
    )  # fmt: skip
    return EXIT_INTERRUPTED if interrupted else 0


def choose_points(engine: Engine, memory: int, quick: bool, block: int) -> list[Point]:
    """Return the grid for the engine; BadInput where the memory leaves too little."""
    from gpu_validation.calibration import SIZES, grid

    points = grid(SIZES[engine.device.type, quick], memory, block)
    if len(points) < 20:
        raise BadInput(f"--memory {memory}: only {len(points)} batches of the grid fit; at least 20 are needed")
    return points


def capacity_of(engine: Engine, memory: int | None, block: int) -> int:
    """Return M: the tokens of KV that fit beside the weights, in whole blocks, or fewer if given.

    BadInput if more is given than fits.
    """
    if engine.device.type == "cpu":
        return (memory or CPU_MEMORY) // block * block
    import torch

    from gpu_validation.devices import SPARE

    free = torch.cuda.mem_get_info(engine.device)[0] - SPARE
    fits = int(free // engine.block_bytes(block)) * block
    if memory is not None and memory > fits:
        raise BadInput(f"--memory {memory}: {fits} tokens of KV fit beside the weights of {engine.model.name}")
    return (memory or fits) // block * block


def machine_of(engine: Engine, memory: int, points: Sequence[Point], block: int) -> Machine:
    """Return the machine of the cost file: no batch has more tokens than was measured.

    The host holds half of its free memory; nothing without swaps in the grid.
    """
    import psutil

    moved = any(point.swap_out for point in points)
    host = psutil.virtual_memory().available // 2 // engine.block_bytes(block) * block
    return Machine(
        memory=memory, block=block, host_memory=host if moved else 0, evict=True, partial=True,
        batch_tokens=max(point.features.tokens for point in points),
    )  # fmt: skip


def point_rows(measured: Sequence[Measured], found: Fit, floor: Floor) -> list[dict[str, Any]]:
    """Return a flat record for each batch: its work, measured, predicted and least times.

    `error` is (predicted - measured) / measured.
    """
    rows = []
    for one in measured:
        features = one.point.features
        predicted, least = found.predict(features), floor(features)
        rows.append({
            "label": one.point.label, "batch": one.point.name, **{name: getattr(features, name) for name in COUNTS},
            **one.spread, "predicted": predicted, "error": predicted / one.seconds - 1, "floor": least,
            "over_floor": one.seconds / least,
        })  # fmt: skip
    return rows


def show(console: Console, about: Row, found: Fit, rows: Rows, swaps: Rows) -> None:
    """Print the device, the errors by shape and kind of batch, the floors, and the swaps."""
    console.print(
        f"{about['device']}, {about['backend']} backend, {about['dtype']}, torch {about['torch']}, {about['date']}"
    )
    console.print(fit_table(found.report))
    console.print(f"the cost model is the {found.report.shape} one; errors are of the predicted against the median")
    console.print()
    cells = [
        (row["label"], row["batch"], milliseconds(row["seconds_median"]), milliseconds(row["predicted"]),
         percent(row["error"]), milliseconds(row["floor"]), f"{row['over_floor']:.2f}")
        for row in told(rows)
    ]  # fmt: skip
    heads = ("kind", "requests x tokens at KV", "median, ms", "fit, ms", "error", "floor, ms", "over floor")
    console.print(table(heads, cells, right=range(2, 7)))
    console.print("floor: the roofline at the bandwidths and the matrix product measured here")
    if swaps:
        console.print()
        console.print(table(SWAPS, [_swap_cells(row) for row in swaps], right=range(1, 10)))
        most = ", ".join(f"{tokens} {direction}" for direction, tokens in knees(swaps).items())
        console.print(f"tokens up to which no swap slows its batch by more than 3 %: {most}")


SWAPS = ("swap", "tokens", "alone, ms", "GB/s", "of link", "budget", "batch, ms", "with it, ms", "hidden", "slowed")


def _swap_cells(row: Row) -> list[object]:
    rate = f"{row['bytes_per_second'] / 1e9:.3g}"
    batch = [milliseconds(row[key]) for key in ("without", "together")]
    hidden = [percent(row[key]) for key in ("hidden", "slowed")]
    alone = [milliseconds(row["alone"]), rate, percent(row["of_link"])]
    return [row["direction"], row["tokens"], *alone, row["budget"], *batch, *hidden]


def told(rows: Rows, most: int = 24) -> list[Row]:
    """Return `most` evenly spaced rows for people (`--json` has all)."""
    work = [row for row in rows if row["label"] != "swap beside work"]
    step = -(-len(work) // most)
    return work[::step]


def knees(rows: Rows, most: float = 0.03) -> dict[str, int]:
    """Return by direction the most tokens up to which every swap slows its batch by at most `most`."""
    found: dict[str, int] = {}
    for direction in dict.fromkeys(row["direction"] for row in rows):
        ways = sorted((row for row in rows if row["direction"] == direction), key=lambda row: int(row["tokens"]))
        within = takewhile(lambda row: float(row["slowed"]) <= most, ways)
        found[direction] = max((int(row["tokens"]) for row in within), default=0)
    return found

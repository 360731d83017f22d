"""How a device is timed, and what else a time depends on.

On a GPU a sample is the time between two events; the GPU first sleeps while the host queues the work. On a CPU it is
the processor time of torch's only thread.
"""

import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Mark = Any  # what a clock notes: a CUDA event on the current stream, or seconds of this thread's processor time
cuda: Any = torch.cuda  # its events and streams have no types
WARMUP, REPEATS = 3, 7
HOLD, MOST_HOLD = 2_000_000, 128_000_000  # cycles that the GPU sleeps before a sample: 1 ms, up to 65 ms
GPU = {"driver": "driver_version", "sm_clock_max_mhz": "clocks.max.sm", "power_limit_w": "power.limit"}
WATCHED = {"sm_clock_mhz": "clocks.sm", "memory_clock_mhz": "clocks.mem", "reasons": "clocks_throttle_reasons.active"}
"""Questions to nvidia-smi by the key in a record: once, and every WATCH ms during a measurement."""
WATCH = 200
THROTTLED = 0xEC  # reasons for a lower clock: power, heat, the hardware (not idleness, not a set clock)


class DeviceClock:
    """Marks in time: events on a GPU, read at the end; on a CPU the processor time of this thread."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"

    def mark(self) -> Mark:
        """Note that everything before, on the current stream, is done."""
        if not self.on_gpu:
            return time.thread_time()
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Mark, end: Mark) -> float:
        """Return the seconds between two marks that have happened."""
        return float(start.elapsed_time(end) / 1000 if self.on_gpu else end - start)

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        if self.on_gpu:
            cuda.synchronize()


def sample(run: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of one run."""
    if device.type == "cuda":
        return _on_gpu(run)
    clock = DeviceClock(device)
    start = clock.mark()
    run()
    return clock.seconds(start, clock.mark())


def _on_gpu(run: Callable[[], object]) -> float:
    """Let the GPU sleep, queue the run between two events; sleep longer where it woke up too early.

    A run that waits for the GPU wakes it too early: its last sample includes the host.
    """
    hold = HOLD
    while True:
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        cuda._sleep(hold)
        start.record()
        run()
        end.record()
        woke = start.query()
        end.synchronize()
        if not woke or hold >= MOST_HOLD:
            return float(start.elapsed_time(end)) / 1e3
        hold *= 4


def in_turns(
    executions: Mapping[str, Callable[[], T]], repeats: int, warmup: int, partly: bool = False
) -> dict[str, list[T]]:
    """Run each `repeats` times after `warmup` rounds, in the order A B C, C B A, ..; return the results of each.

    `partly`: Ctrl-C or SIGTERM ends it with the whole rounds, if any.
    """
    taken: dict[str, list[T]] = {name: [] for name in executions}
    try:
        for k in range(warmup + repeats):
            for name in executions if k % 2 == 0 else reversed(list(executions)):
                given = executions[name]()
                if k >= warmup:
                    taken[name].append(given)
    except KeyboardInterrupt:
        whole = min(map(len, taken.values()))
        if not (partly and whole):
            raise
        return {name: given[:whole] for name, given in taken.items()}
    return taken


def interleaved(
    runs: Mapping[str, Callable[[], object]], device: torch.device, repeats: int = REPEATS, warmup: int = WARMUP
) -> dict[str, list[float]]:
    """Return samples of each run, in seconds, taken in turns."""
    return in_turns({name: partial(sample, run, device) for name, run in runs.items()}, repeats, warmup)


def spread(samples: Sequence[float]) -> dict[str, Any]:
    """Return the median and the 10 and 90 % quantiles of samples, in seconds, and their number."""
    tenths = statistics.quantiles(samples, n=10, method="inclusive") if len(samples) > 1 else samples
    median = statistics.median(samples)
    return {
        "seconds_median": median, "seconds_p10": tenths[0], "seconds_p90": tenths[-1], "repeats": len(samples)
    }  # fmt: skip


def facts(device: torch.device) -> dict[str, Any]:
    """Return the machine, the versions and the time of a record. A CPU is called cpu, never a GPU."""
    known = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device_type": device.type,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("kvbound", "torch", "triton")},
        "cuda": torch.version.cuda,
        "cpu_threads": torch.get_num_threads(),
    }
    return known | (_gpu(device) if device.type == "cuda" else {})


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _asked(device: torch.device, wanted: Mapping[str, str], *more: str) -> list[str]:
    about = f"--query-gpu={','.join(wanted.values())}"
    uuid = cuda.get_device_properties(device).uuid
    return ["nvidia-smi", "-i", f"GPU-{uuid}", about, "--format=csv,noheader,nounits", *more]


def _gpu(device: torch.device) -> dict[str, str | None]:
    try:
        said = subprocess.run(_asked(device, GPU), capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        said = ""
    values = [value.strip() for value in said.split(",")]
    return dict(zip(GPU, values if len(values) == len(GPU) else [None] * len(GPU), strict=True))


@contextmanager
def watched(device: torch.device) -> Iterator[dict[str, Any]]:
    """Give the clocks of the block at its end: medians, and whether the GPU was throttled.

    Nothing on a CPU, and without nvidia-smi.
    """
    found: dict[str, Any] = {}
    try:
        if device.type != "cuda":
            raise FileNotFoundError
        process = subprocess.Popen(_asked(device, WATCHED, "-lms", str(WATCH)), stdout=subprocess.PIPE, text=True)
    except OSError:
        yield found
        return
    try:
        yield found
    finally:
        process.terminate()
        rows = [line.split(", ") for line in process.communicate()[0].splitlines()]
        rows = [row for row in rows if len(row) == len(WATCHED) and row[0].isdigit() and row[1].isdigit()]
        if rows:
            sm, memory, reasons = zip(*rows, strict=True)
            found["sm_clock_mhz"], found["memory_clock_mhz"] = (statistics.median(map(int, x)) for x in (sm, memory))
            found["throttled"] = any(int(reason, 16) & THROTTLED for reason in reasons)

"""Policies on whole traces: seconds, batches a second and memory, and whether the time grows with the batches.

Each run is a process of its own on one core; its CPU seconds cover the policy, the engine with the referee's rules, and
a second execution of the finished schedule by the referee.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.data import CONVERSATIONS, LLAMA_A100, MIXTURE, trace_file
from costmodels import INFERMAX_7B, get_cost
from heuristics import POLICIES, Unsuited, get_policy, trace_policy
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import total_flow_time
from kvcore.referee import verify_schedule
from kvcore.trace import Trace
from workloads.importers import read_agent_traces, read_azure, read_infercept

SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1))
LINEAR = ("vllm", "sarathi")
"""Policies whose time is measured at shares of the trace."""
RATES = (1, 2, 3, 4, 5)
CALLS = ("vllm", "sarathi", "preserve", "infercept", "mars", "augserve", "mc-sf")
"""Policies that are measured on the mixture at every rate; the others at the highest one."""
AGENTS = ("vllm", "preserve", "infercept", "mars", "augserve")
"""Those measured on the agents' sessions; one that discards in chunks makes millions of batches there."""
AGENT_MEMORY = 1_000_000
GROWTH = ("ms_per_batch_first", "ms_per_batch_last")


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and trace; nothing without the data."""
    trace_file(CONVERSATIONS)
    return [row for name, policy in cases() if (row := measured(name, policy)) is not None]


def cases() -> Iterator[tuple[str, str]]:
    """Yield the traces, by the names that `trace` knows, with the policies."""
    for cost in ("infermax-7b", "infermax-70b"):
        yield from ((f"azure {cost} 1", policy) for policy in POLICIES)
    yield from ((f"azure infermax-7b {share}", policy) for policy in LINEAR for share in SHARES[:-1])
    yield from ((f"infercept {rate}", policy) for rate in RATES[:-1] for policy in CALLS)
    yield from ((f"infercept {RATES[-1]}", policy) for policy in POLICIES)
    yield from (("agents", policy) for policy in AGENTS)


def trace(name: str) -> Instance:
    """Return a trace by its name."""
    kind, *rest = name.split()
    if kind in ("azure", "hour"):
        cost, share = get_cost(rest[0] if rest else "infermax-7b"), Fraction(rest[1] if rest else 1)
        machine = INFERMAX_7B if kind == "hour" else LLAMA_A100
        whole = read_azure(trace_file(CONVERSATIONS), tick=cost.tick, machine=machine, cost=cost.make())
        return whole.replace(requests=whole.requests[: int(len(whole.requests) * share)])
    cost = get_cost("infercept-6b")
    if kind == "infercept":
        options = {"rate": Fraction(rest[0]), "minutes": Fraction(30), "tick": cost.tick, "machine": cost.machine}
        return read_infercept(trace_file(MIXTURE), cost=cost.make(), **options)
    machine = cost.machine.replace(memory=AGENT_MEMORY, host_memory=None, batch_tokens=8192, prefill_tokens=8192)
    path = trace_file("agent_traces/agent_requests.csv")
    return read_agent_traces(path, tick=cost.tick, machine=machine, cost=cost.make())


def measured(name: str, policy: str) -> dict[str, Any] | None:
    """Run one case in a process of its own; None if the policy is unsuited."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            return process.submit(_measure, name, policy).result()
        except BrokenProcessPool:
            return {"trace": name, "policy": policy, "error": "the process ended"}


def _measure(name: str, policy: str) -> dict[str, Any] | None:
    instance = trace(name)
    clock = [time.process_time()]
    started = clock[0]
    try:
        made = trace_policy(instance, get_policy(policy), go_on=lambda: clock.append(time.process_time()) is None)
    except Unsuited:
        return None
    except BadInput as error:
        return {"trace": name, "policy": policy, "error": str(error)}
    simulated = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    verify_schedule(instance, made.schedule)
    seconds = time.process_time() - started
    batches = sum(len(run.ends) for run in made.runs)
    latency = float(total_flow_time(made) * instance.tick_seconds) / len(instance.requests)
    return {
        "trace": name, "policy": policy, "requests": len(instance.requests), "batches": batches,
        "entries": len(made.schedule.batches),
        "request_batches": sum(span.length for request in made.requests for span in request.spans),
        "seconds": round(seconds, 2), "seconds_referee": round(seconds - simulated, 2),
        "batches_per_second": round(batches / seconds),
        "peak_mib": peak,
        **growth(clock, made),
        "mean_latency_seconds": round(latency, 3),
    }  # fmt: skip


def growth(clock: list[float], made: Trace) -> dict[str, float]:
    """Return the milliseconds a batch in the first and in the last quarter of the decisions.

    Each decision makes one entry of the schedule (or waits for an event), which may stand for many batches.
    """
    quarter = len(made.schedule.batches) // 4
    if not quarter:
        return {}
    batches = [batch.repeat for batch in made.schedule.batches]
    first, last = clock[quarter] - clock[0], clock[-1] - clock[-1 - quarter]
    each = first / sum(batches[:quarter]), last / sum(batches[-quarter:])
    return dict(zip(GROWTH, (round(1000 * seconds, 4) for seconds in each), strict=True))


def hour() -> list[dict[str, Any]]:
    """Return a row for each policy and each other simulator, on the hour of Azure conversations on Llama-2-7B.

    Of CPU seconds and memory. Seconds grow with the requests present; `ms_per_batch_first` and `.._last`, of the first
    and the last quarter of the decisions, say how much. `KVBOUND_SIMULATORS` names a TOML file with a command for each
    simulator, such as

        vidur = "cd ~/vidur && python -m vidur.main --request_generator_config_type trace_replay .."

    for Vidur's release and INFERMAX's fork of it, with the trace `data/processed_traces/splitwise_conv.csv` of both.
    """
    if "KVBOUND_DATA" not in os.environ:
        return [{"simulator": "none: set KVBOUND_DATA for the trace (docs/data.md)"}]
    return [*ours(), *others()]


def ours() -> Iterator[dict[str, Any]]:
    """Yield the times of our policies, each in a process of its own, the referee's rules included."""
    for policy in POLICIES:
        row = measured("hour", policy)
        if row is not None:
            seconds = round(row["seconds"] - row["seconds_referee"], 2) if "seconds" in row else row["error"]
            kept = {key: row.get(key) for key in ("peak_mib", "batches", *GROWTH)}
            yield {"simulator": f"kvbound {policy}", "cpu_seconds": seconds, **kept}


def others() -> Iterator[dict[str, Any]]:
    """Yield the times of the commands that are given; one line says so where none is."""
    path = os.environ.get("KVBOUND_SIMULATORS")
    if path is None:
        yield {"simulator": "Vidur, INFERMAX: not compared, KVBOUND_SIMULATORS names no file with their commands"}
        return
    for name, command in tomllib.loads(Path(path).read_text(encoding="utf-8")).items():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, check=False).returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield {"simulator": name, "cpu_seconds": f"failed with {status}" if status else round(seconds, 2)}

"""Policies on whole traces: seconds, batches a second and memory.

Each run is a process on one core; its CPU seconds cover the policy, the engine, and the referee's second execution.
"""

import os
import resource
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from benchmarks.data import AGENTS, CONVERSATIONS, DRAWN, HOUR, made
from heuristics import POLICIES, Unsuited, get_policy, trace_policy
from kvcore.errors import BadInput
from kvcore.metrics import total_flow_time
from kvcore.referee import verify_schedule

CALLS = ("vllm", "sarathi", "preserve", "infercept", "mars", "augserve", "mc-sf")  # on the mixture at every rate
SESSIONS = ("vllm", "preserve", "infercept", "mars", "augserve")  # discarding in chunks takes millions of batches
TRACES = {
    "azure infermax-7b": f"{HOUR} infermax-7b",
    "azure infermax-70b": f"{HOUR} infermax-70b",
    **{f"azure infermax-7b 1/{n}": f"{HOUR} infermax-7b --take {19_366 // n}" for n in (8, 4, 2)},
    **{f"infercept {rate}": f"{DRAWN} --rate {rate} --minutes 30 --cost infercept-6b" for rate in range(1, 6)},
    "agents": f"{AGENTS} --cost infercept-6b --memory 1000000 --host-memory 1000000000 --batch-tokens 8192 "
    "--prefill-tokens 8192",
    "hour": f"import azure {CONVERSATIONS} --cost infermax-7b",
}
CASES: dict[str, Iterable[str]] = {
    **dict.fromkeys(TRACES, CALLS),
    **dict.fromkeys(("azure infermax-7b", "azure infermax-70b", "infercept 5"), POLICIES),
    **{f"azure infermax-7b 1/{n}": ("vllm", "sarathi") for n in (8, 4, 2)},
    "agents": SESSIONS,
}
"""The policies that `simulate` runs on each trace."""


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and trace."""
    cases = [(name, policy) for name, policies in CASES.items() if name != "hour" for policy in policies]
    return [row for case in cases if (row := measured(*case)) is not None]


def measured(name: str, policy: str) -> dict[str, Any] | None:
    """Run one case in a process of its own; None if the policy is unsuited."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            return process.submit(_measure, name, policy).result()
        except BrokenProcessPool:
            return {"trace": name, "policy": policy, "error": "the process ended"}


def _measure(name: str, policy: str) -> dict[str, Any] | None:
    instance = made(TRACES[name])
    started = time.process_time()
    try:
        trace = trace_policy(instance, get_policy(policy))
    except Unsuited:
        return None
    except BadInput as error:
        return {"trace": name, "policy": policy, "error": str(error)}
    simulated = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    verify_schedule(instance, trace.schedule)
    seconds = time.process_time() - started
    batches = sum(len(run.ends) for run in trace.runs)
    latency = float(total_flow_time(trace) * instance.tick_seconds) / len(instance.requests)
    return {
        "trace": name, "policy": policy, "requests": len(instance.requests), "batches": batches,
        "entries": len(trace.schedule.batches),
        "request_batches": sum(span.length for request in trace.requests for span in request.spans),
        "seconds": round(seconds, 2), "seconds_referee": round(seconds - simulated, 2),
        "batches_per_second": round(batches / seconds),
        "peak_mib": peak,
        "mean_latency_seconds": round(latency, 3),
    }  # fmt: skip


def hour() -> list[dict[str, Any]]:
    """Return a row for each policy on the hour of Azure conversations on Llama-2-7B."""
    if "KVBOUND_DATA" not in os.environ:
        return [{"trace": "none: set KVBOUND_DATA (docs/data.md)"}]
    return [row for policy in POLICIES if (row := measured("hour", policy)) is not None]

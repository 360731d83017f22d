"""Policies on whole traces: seconds, batches a second and memory, and whether the time grows with the batches.

Each run is a process of its own on one core; its CPU seconds cover the policy, the engine with the referee's rules, and
a second execution of the finished schedule by the referee.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from costmodels import INFERMAX_7B, get_cost
from heuristics import POLICIES, Unsuited, get_policy, trace_policy
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine
from kvcore.metrics import total_flow_time
from kvcore.referee import verify_schedule
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


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and trace; nothing without the data."""
    folder = os.environ.get("KVBOUND_DATA")
    if folder is None:
        raise SystemExit("benchmarks.simulate needs the traces: set KVBOUND_DATA (docs/data.md)")
    return [row for name, policy in cases(Path(folder)) if (row := measured(name, policy)) is not None]


def cases(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the traces, by the names that `trace` knows, with the policies."""
    for cost in ("infermax-7b", "infermax-70b"):
        yield from ((f"azure {cost} 1", policy) for policy in POLICIES)
    yield from ((f"azure infermax-7b {share}", policy) for policy in LINEAR for share in SHARES[:-1])
    yield from ((f"infercept {rate}", policy) for rate in RATES[:-1] for policy in CALLS)
    yield from ((f"infercept {RATES[-1]}", policy) for policy in POLICIES)
    yield from (("agents", policy) for policy in AGENTS)


def trace(name: str) -> Instance:
    """Return a trace by its name."""
    folder = Path(os.environ["KVBOUND_DATA"])
    kind, *rest = name.split()
    if kind in ("azure", "hour"):
        cost, share = get_cost(rest[0] if rest else "infermax-7b"), Fraction(rest[1] if rest else 1)
        machine = Machine(memory=100_000, batch_tokens=16384, prefill_tokens=16384, evict=True)
        machine = INFERMAX_7B if kind == "hour" else machine
        path = folder / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
        whole = read_azure(path, tick=cost.tick, machine=machine, cost=cost.make())
        return whole.replace(requests=whole.requests[: int(len(whole.requests) * share)])
    cost = get_cost("infercept-6b")
    if kind == "infercept":
        path = folder / "infercept" / "merged_exp_uniform_lengths.csv"
        options = {"rate": Fraction(rest[0]), "minutes": Fraction(30), "tick": cost.tick, "machine": cost.machine}
        return read_infercept(path, cost=cost.make(), **options)
    machine = cost.machine.replace(memory=AGENT_MEMORY, host_memory=None, batch_tokens=8192, prefill_tokens=8192)
    path = folder / "agent_traces" / "agent_requests.csv"
    return read_agent_traces(path, tick=cost.tick, machine=machine, cost=cost.make())


def measured(name: str, policy: str) -> dict[str, Any] | None:
    """Run one case in a process of its own; None if the policy is unsuited."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_measure, args=(sender, name, policy))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return {"trace": name, "policy": policy, "error": f"the process ended with code {process.exitcode}"}
    finally:
        process.join()


def _measure(pipe: Any, name: str, policy: str) -> None:
    instance = trace(name)
    started = time.process_time()
    try:
        made = trace_policy(instance, get_policy(policy))
    except Unsuited:
        pipe.send(None)
        return
    except BadInput as error:
        pipe.send({"trace": name, "policy": policy, "error": str(error)})
        return
    simulated = time.process_time() - started
    verify_schedule(instance, made.schedule)
    seconds = time.process_time() - started
    batches = sum(len(run.ends) for run in made.runs)
    pipe.send(
        {
            "trace": name,
            "policy": policy,
            "requests": len(instance.requests),
            "batches": batches,
            "entries": len(made.schedule.batches),
            "request_batches": sum(span.length for request in made.requests for span in request.spans),
            "seconds": round(seconds, 2),
            "seconds_referee": round(seconds - simulated, 2),
            "batches_per_second": round(batches / seconds),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "mean_latency_seconds": round(
                float(total_flow_time(made) * instance.tick_seconds) / len(instance.requests), 3
            ),
        }
    )

"""`python -m benchmarks.against_bounds`: engines and papers' policies beside certified bounds, for docs/engines.md.

Each case is written to `benchmarks/records/engines.jsonl` as it ends; one that is there is not run again. With
`settings` engines run with other settings on a few of these cases, for `benchmarks/records/settings.jsonl`.
"""

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.data import AGENTS, MIXTURE, made
from heuristics import Unsuited, get_policy, trace_policy
from heuristics.load import scaled
from kvcore.instance import Instance, Slo
from kvcore.metrics import SUMS, objective_value
from solvers.dual_bound import best_bound
from solvers.improve import improve

RECORD, SETTINGS = (Path(__file__).parent / "records" / f"{name}.jsonl" for name in ("engines", "settings"))
POLICIES = ("vllm-v1", "sglang", "trtllm-no-evict", "trtllm-max-utilization", "trtllm-v2", "sarathi-serve", "infercept",
            "mars", "augserve")  # fmt: skip
MODELS = {
    "7B, linear": ("infermax-7b", 100_000),
    "8B, H100": ("roofline:model=llama-3-8b,device=h100", 467_280),
    "70B, 4 x H100": ("roofline:model=llama-3-70b,device=h100,tp=4", 513_088),
}
"""The cost of a batch, and the memory for KV in tokens, by the name of the model and its device."""
TAKEN = "--take 100 --seed 0 --handling free"
WORKLOADS = {
    "Azure code": ("import azure azure2023/AzureLLMInferenceTrace_code.csv --take 100 --drop-too-long", 1.0),
    "Azure conversation": ("import azure azure2023/AzureLLMInferenceTrace_conv.csv --take 100 --drop-too-long", 1.0),
    "mixture, load 1/2": (f"import infercept {MIXTURE} --rate 1 {TAKEN}", 0.5),
    "mixture, load 1": (f"import infercept {MIXTURE} --rate 1 {TAKEN}", 1.0),
    "long prompts": ("generate fixed --n 100 --rate 1 --prompt 12000 --output 200", 1.0),
    "agents": (f"{AGENTS} --take 4 --drop-too-long", None),
    "agents, host memory": (f"{AGENTS} --take 4 --drop-too-long --host-memory 4000000", None),
}
"""What makes the requests, and the load: the time that work takes at the least, over that in which they arrive."""
FIRST, TOKEN = Fraction(1), Fraction(1, 20)
"""Seconds for the first token; for the last one so many and these for each token, besides calls."""
WORK = {"total-flow-time": 15_000_000, "p99-ttft": 6_000_000, "late-requests": 4_000_000}
"""Units for the bounds of a case: the same on a busy machine."""
ROUNDS = 12
"""Policies that `improve` tries for each objective."""
SET = (
    "vllm-v1", *(f"vllm-v1:victim={who}" for who in ("least-computed", "most-blocks", "longest")),
    *(f"vllm-v1:ttl={seconds}" for seconds in (1, 10, 100)), "vllm-v1:watermark=0.05", "vllm-v1:threshold=512",
    "vllm-v1-priority:aging=1000", "trtllm-max-utilization", "trtllm-v2",
)  # fmt: skip
"""Settings of engines; each is compared with the engine's defaults."""
SET_IN = {
    "Azure code": None, "Azure conversation": 16_384, "mixture, load 1": None, "agents": None,
    "agents, host memory": None,
}  # fmt: skip
"""The cases of 7B in which they are, and their memory, if another."""
OTHERS = ("index", "infercept-heuristic", "lamps", "sjf-api", "srpt")
"""What is run in its place for sessions, where those would take hours."""


def case(workload: str, model: str) -> Instance:
    """Return the requests of a workload for a model, at the load and with the SLOs named above."""
    (source, load), (cost, memory) = WORKLOADS[workload], MODELS[model]
    instance = made(f"{source} --cost {cost} --memory {memory}", f"{workload}, {model}")
    if load is not None:
        least = best_bound(instance, "busy-time", method="shares").bound
        last = max(request.arrival for request in instance.requests)
        factor = Fraction(f"{float(load * last / int(least or 1)):.3g}")
        instance = scaled(instance, factor).replace(name=instance.name)
    first, token = (int(seconds / instance.tick_seconds) for seconds in (FIRST, TOKEN))
    return instance.replace(
        requests=tuple(
            request.replace(slo=Slo(ttft=first, latency=first + token * request.output + request.call_time))
            for request in instance.requests
        )
    )


def measured(workload: str, model: str) -> dict[str, Any]:
    """Return the values of a case: of each policy, the best that is found, and what is proved; means and times in s.

    `called` is the mean time in calls, which the mean latency has in it.
    """
    instance = case(workload, model)
    traces, is_long = {}, "agents" in workload
    for name in (*POLICIES, *OTHERS * is_long):
        try:
            traces[name] = trace_policy(instance, get_policy(name))
        except Unsuited:
            continue
    found: dict[str, Any] = {}
    for objective, work in WORK.items():
        values = {name: objective_value(trace, objective) for name, trace in traces.items()}
        best, by = min((value, name) for name, value in values.items())
        proved = best_bound(instance, objective, work=work)
        bound = max(proved.bound or 0, 0)
        if best > bound and not is_long:
            better = improve(instance, objective, rounds=ROUNDS)
            if better.value is not None and better.value < best:
                best, by = better.value, better.policy or "improve"
        unit = Fraction(1) if objective == "late-requests" else instance.tick_seconds
        unit = unit / len(instance.requests) if objective in SUMS else unit
        found[objective] = {
            "policies": {name: float(value * unit) for name, value in values.items() if name in POLICIES},
            "best": float(best * unit), "by": by, "bound": float(bound * unit), "method": proved.formulation,
        }  # fmt: skip
    called = sum(request.call_time for request in instance.requests) * instance.tick_seconds / len(instance.requests)
    facts = {"workload": workload, "model": model, "requests": len(instance.requests), "called": float(called)}
    return {**facts, **found}


def with_settings() -> None:
    """Write the mean latency of each setting, and the bound, in seconds."""
    known, objective, model = (
        [json.loads(line) for line in RECORD.read_text().splitlines()],
        "total-flow-time",
        "7B, linear",
    )
    with SETTINGS.open("w") as record:
        for workload, memory in SET_IN.items():
            instance = case(workload, model)
            unit = instance.tick_seconds / len(instance.requests)
            bound = next(
                row[objective]["bound"] for row in known if (row["workload"], row["model"]) == (workload, model)
            )
            if memory:
                instance = instance.replace(machine=instance.machine.replace(memory=memory))
                bound = float((best_bound(instance, objective, work=WORK[objective]).bound or 0) * unit)
            values = {name: objective_value(trace_policy(instance, get_policy(name)), objective) * unit for name in SET}
            row = {
                "workload": f"{workload}, {memory:,} tokens" if memory else workload, "model": model,
                "called": float(sum(request.call_time for request in instance.requests) * unit),
                "policies": {name: float(value) for name, value in values.items()}, "bound": bound,
            }  # fmt: skip
            record.write(json.dumps(row) + "\n")


def main() -> None:
    """Run the cases that are not in the record yet."""
    if sys.argv[1:] == ["settings"]:
        with_settings()
        return
    known = [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []
    done = {(row["workload"], row["model"]) for row in known}
    for workload in WORKLOADS:
        for model in MODELS:
            if (workload, model) not in done:
                row = json.dumps(measured(workload, model))
                with RECORD.open("a") as record:
                    record.write(row + "\n")
                print(row, flush=True)


if __name__ == "__main__":
    main()

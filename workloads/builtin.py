"""Built-in instances: worked examples of papers, and generators of the theory."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from kvcore.cost import Cost, CostFunction
from kvcore.errors import BadInput, did_you_mean
from kvcore.files import read_instance
from kvcore.instance import Call, Handling, Instance, Machine, Request, Segment
from kvcore.parameters import read_parameters
from workloads import prefixes


@dataclass(frozen=True)
class Builtin:
    """A named family: its parameters with their defaults, description, and source."""

    make: Callable[..., Instance]
    defaults: dict[str, int]
    what: str
    source: str
    optional: tuple[str, ...] = ()  # parameters that may be left out and then have no value

    def usage(self, name: str) -> str:
        """Return the name with its parameters, as a user types it."""
        return name + (
            ":" + ",".join(f"{key}={value}" for key, value in self.defaults.items()) if self.defaults else ""
        )


def mars_figure1() -> Instance:
    """Return the worked example of MARS (Figure 1) and LAMPS (Figure 3): three requests with one call each."""

    def request(id: str, before: int, duration: int, handling: Handling) -> Request:
        call = Call(duration=duration, returns=0, handling=handling)
        return Request(id=id, prompt=1, segments=(Segment(decode=before, call=call), Segment(decode=1)))

    return Instance(
        name="mars-figure1",
        machine=Machine(memory=6, host_memory=6, batch_tokens=1, prefill_tokens=1, batch_requests=1),
        requests=(request("R1", 5, 2, "preserve"), request("R2", 1, 7, "discard"), request("R3", 2, 1, "swap")),
    )


def mars_like(n: int, seed: int) -> Instance:
    """Return `n` requests on the machine of `mars-figure1`, with drawn sizes and calls, all free."""
    draw = random.Random(seed)

    def request(i: int) -> Request:
        before = draw.randint(1, 5)
        call = Call(duration=draw.randint(1, 7), returns=0, handling="free")
        return Request(id=f"R{i}", prompt=1, segments=(Segment(decode=before, call=call), Segment(decode=1)))

    requests = tuple(request(i) for i in range(1, n + 1))
    return mars_figure1().replace(name=f"mars-like:n={n},seed={seed}", requests=requests)


def infermax_figure15(I: int) -> Instance:  # noqa: E741 - the paper's letter, and part of the instance's name
    """Return INFERMAX's Figure 15: four requests of prompt I with four outputs; memory holds two prompts."""
    from costmodels import infermax_7b

    output = 4
    return Instance(
        name=f"infermax-figure15:I={I}",
        tick_seconds=Fraction(1, 10**9),
        machine=Machine(
            memory=max(2 * I, I + output - 1), host_memory=0, batch_tokens=4096, prefill_tokens=4096, evict=True
        ),
        cost=infermax_7b(),
        requests=tuple(Request(id=f"R{i}", prompt=I, segments=(Segment(decode=output),)) for i in range(1, 5)),
    )


def hindsight(n: int, M: int, seed: int, P: int | None = None, T: int | None = None) -> Instance:
    """Return an instance of the theory family: all at tick 0, one batch a tick, no eviction, no chunks, no pause.

    No peak is above `P` (default `M`). With `T`, each arrives at a tick from 0 to `T`, drawn after its prompt and
    output.
    """
    given = "".join(f",{key}={value}" for key, value in (("P", P), ("T", T)) if value is not None)
    name = f"hindsight:n={n},M={M}{given},seed={seed}"
    return _theory_family(name, n, M, M if P is None else P, random.Random(seed), T)


def identical(n: int, I: int, O: int, M: int) -> Instance:  # noqa: E741 - the letters of `infermax-figure15`
    """Return `n` identical requests on the machine of INFERMAX's Figure 15; the fixed part of the cost dominates.

    A batch takes 10 ms, 0.07 ms a token, and 0.0004 ms a token of KV that its decodes read; a tick of 0.1 us makes all
    whole.
    """
    return Instance(
        name=f"identical:n={n},I={I},O={O},M={M}",
        tick_seconds=Fraction(1, 10**7),
        machine=Machine(memory=M, host_memory=0, batch_tokens=4096, prefill_tokens=4096, evict=True),
        cost=Cost((CostFunction(busy=100_000, tokens=700, decode_kv=4),)),
        requests=tuple(Request(id=f"R{i}", prompt=I, segments=(Segment(decode=O),)) for i in range(1, n + 1)),
    )


def hindsight_benchmark(seed: int) -> Instance:
    """Return the benchmark set of the theory family: M in 30..50 and n in 40..60 are drawn first."""
    draw = random.Random(seed)
    M = draw.randint(30, 50)
    n = draw.randint(40, 60)
    return _theory_family(f"hindsight-benchmark:seed={seed}", n, M, M, draw)


def _theory_family(name: str, n: int, M: int, P: int, draw: random.Random, T: int | None = None) -> Instance:
    requests = []
    for i in range(1, n + 1):
        s = draw.randint(1, 5)
        o = draw.randint(1, P - s)
        arrival = 0 if T is None else draw.randint(0, T)
        requests.append(Request(id=f"R{i}", arrival=arrival, prompt=s + 1, segments=(Segment(decode=o),)))
    return Instance(
        name=name,
        machine=Machine(memory=M, host_memory=0, chunked=False, evict=False, pause=False),
        requests=tuple(requests),
    )


def infercept_sample(k: int, evict: int = 0) -> Instance:
    """Return the shipped sample of `k` real requests of the InferCept mixture, coarsened (`workloads/samples`).

    With `evict` 1 KV may be evicted, and calls are free; a slot then has ticks to refill it.
    """
    if evict not in (0, 1):
        raise BadInput(f"infercept-sample: evict is 0 or 1, not {evict}")
    sample = _sample("infercept-sample", "infercept-evict" if evict else "infercept", k, SAMPLES)
    return sample.replace(name=f"{sample.name},evict=1") if evict else sample


def infercept_ve(k: int, chunked: int = 0) -> Instance:
    """Return the shipped sample of `k` real requests that drive a virtual environment, not coarsened.

    Batches last as InferCept's GPT-J-6B; memory holds two requests; prefills are whole unless `chunked` is 1.
    """
    if chunked not in (0, 1):
        raise BadInput(f"infercept-ve: chunked is 0 or 1, not {chunked}")
    sample = _sample("infercept-ve", "infercept-ve", k, VE_SAMPLES)
    if not chunked:
        return sample
    return sample.replace(name=f"{sample.name},chunked=1", machine=sample.machine.replace(chunked=True))


def _sample(name: str, file: str, k: int, sizes: tuple[int, ...]) -> Instance:
    if k not in sizes:
        raise BadInput(f"{name}: k is one of {', '.join(map(str, sizes))}, not {k}")
    return read_instance(Path(__file__).parent / "samples" / f"{file}-{k}.json").replace(name=f"{name}:k={k}")


def worst(policy: str, objective: str, n: int) -> Instance:
    """Return the worst instance of at most `n` requests that `kvbound search` found (docs/worst.md)."""
    if n not in WORST_SIZES:
        raise BadInput(f"worst-{policy}-{objective}: n is one of {', '.join(map(str, WORST_SIZES))}, not {n}")
    return read_instance(Path(__file__).parent / "samples" / "worst" / f"{policy}-{objective}-{n}.json")


def infercept_slice(k: int, seed: int, evict: int = 0) -> Instance:
    """Return `k` requests drawn from the whole InferCept mixture, in the folder KVBOUND_DATA."""
    from workloads.importers import infercept_slice

    folder = os.environ.get("KVBOUND_DATA")
    if folder is None:
        raise BadInput(
            "infercept-slice needs the data: set KVBOUND_DATA to its folder (docs/data.md says how to get it)"
        )
    return infercept_slice(Path(folder) / "infercept" / "merged_exp_uniform_lengths.csv", k, seed, evict=bool(evict))


SAMPLES = (3, 4, 5, 6)
VE_SAMPLES = (3, 4)
WORST_POLICIES = ("fcfs", "sjf", "vllm", "sarathi", "infercept", "mars", "augserve", "infermax")
WORST_OBJECTIVES = ("total-flow-time", "makespan", "max-flow-time")
WORST_SIZES = (2, 3, 4)

BUILTIN: dict[str, Builtin] = {
    "mars-figure1": Builtin(
        mars_figure1, {}, "three requests, each with a call: preserve, discard, swap", "MARS, Figure 1; LAMPS, Figure 3"
    ),
    "mars-like": Builtin(
        mars_like, {"n": 10, "seed": 0}, "the same with drawn sizes and calls, every call free", "as mars-figure1"
    ),
    "infermax-figure15": Builtin(
        infermax_figure15, {"I": 32}, "four requests, of which memory holds two prompts but not two ends",
        "INFERMAX, Section 5.1 and Figure 15",
    ),
    "identical": Builtin(
        identical, {"n": 16, "I": 32, "O": 8, "M": 128}, "like requests, and batches whose fixed cost dominates",
        "the machine of INFERMAX's Figure 15, made larger",
    ),
    "hindsight": Builtin(
        hindsight, {"n": 14, "M": 30, "seed": 14},
        "the theory family: unit batches, one token a request and batch; P=.. limits the peaks, which is M otherwise; "
        "with T=.. they arrive at ticks from 0 to T, all at 0 otherwise",
        "Jaillet et al., arXiv 2502.07115", ("P", "T"),
    ),
    "hindsight-benchmark": Builtin(
        hindsight_benchmark, {"seed": 2}, "the theory family, 40 to 60 requests, memory 30 to 50",
        "Jaillet et al., arXiv 2502.07115",
    ),
    "infercept-sample": Builtin(
        infercept_sample, {"k": 4}, "real requests with calls, in blocks of 64 tokens and slots of 1.6 s; k is 3 to 6; "
        "evict=1: KV may be evicted at any time", "InferCept's mixture", ("evict",),
    ),
    "infercept-ve": Builtin(
        infercept_ve, {"k": 3},
        "real requests, prompts of 1,970 tokens and many short calls; k is 3 or 4; chunked=1: prefills may be split",
        "InferCept's mixture", ("chunked",),
    ),
    "infercept-slice": Builtin(
        infercept_slice, {"k": 6, "seed": 0}, "the same, drawn anew from the whole mixture; needs KVBOUND_DATA",
        "InferCept's mixture", ("evict",),
    ),
    **{
        name: Builtin(partial(prefixes.serial, name, prompt, memory, *rows), {}, what, "this project")
        for name, (what, prompt, memory, rows) in prefixes.CASES.items()
    },
    "prefix-followers": Builtin(
        prefixes.followers, {"k": 3}, "k requests come a tick too late for a prefix of k k tokens", "this project"
    ),
    **{
        f"worst-{policy}-{objective}": Builtin(
            partial(worst, policy, objective), {"n": 4},
            f"at most n requests, on which {policy} is far from the least {objective}; n is 2, 3 or 4",
            "found by `kvbound search`",
        )
        for policy in WORST_POLICIES for objective in WORST_OBJECTIVES
    },
}  # fmt: skip

NAMES = ", ".join([*(name for name in BUILTIN if not name.startswith("worst-")), "worst-POLICY-OBJECTIVE"])
"""Names for people, those of one pattern as one."""

MAX_REQUESTS = 1_000_000


def is_builtin(source: str) -> bool:
    """Whether `source` names a built-in instance (with or without parameters)."""
    return source.partition(":")[0] in BUILTIN


def builtin_instance(source: str) -> Instance:
    """Return a built-in instance by its name, such as `mars-figure1` or `infermax-figure15:I=8`.

    BadInput for an unknown name or parameter.
    """
    name = source.partition(":")[0]
    if name not in BUILTIN:
        raise BadInput(f"no built-in instance is called {name!r}{did_you_mean(name, BUILTIN)}; there are {NAMES}")
    family = BUILTIN[name]
    known = (*family.defaults, *family.optional)
    given = read_parameters(source, known, family.usage(name), whole=True)
    values = family.defaults | {key: int(text) for key, text in given.items()}
    if "I" in values and not 1 <= values["I"] <= 10**6:
        raise BadInput(f"{source}: I is a prompt length from 1 to 1000000")
    if "n" in values and not 1 <= values["n"] <= MAX_REQUESTS:
        raise BadInput(f"{source}: n is a number of requests from 1 to {MAX_REQUESTS}")
    if "k" in values and not 1 <= values["k"] <= 397:
        raise BadInput(f"{source}: k is a number of requests from 1 to 397")
    if "O" in values and not values["M"] >= values["I"] + values["O"] - 1 >= values["I"]:
        raise BadInput(f"{source}: O is at least 1, and M at least I + O - 1, the end of one request")
    if "O" not in values and "M" in values and values["M"] < 6:
        raise BadInput(f"{source}: M is at least 6 (prompts go up to 5 and an output follows)")
    if "P" in values and not 6 <= values["P"] <= values["M"]:
        raise BadInput(f"{source}: P, the largest peak, is from 6 to M = {values['M']}")
    return family.make(**values)

"""`python -m benchmarks.engines --vllm|--sglang FOLDER --seeds N`: an engine's own scheduler beside our policy.

Nothing is installed. FOLDER has the unpacked wheel: `pip download --no-deps vllm==VERSION`, then `unzip vllm-*.whl
'vllm/*.py' -d FOLDER` (sglang likewise). The schedulers import torch (the one for a CPU will do) and msgspec; vLLM's
also cbor2, xxhash and regex. `--dynamo FOLDER`, with `--vllm`: NVIDIA's simulator (ai-dynamo-runtime) as well.
Each workload is random and tight of memory. A difference is printed: seed, batch, the engine's step, and ours.
"""

import argparse
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.engines.dynamo import Dynamo, beside
from benchmarks.engines.sglang import Sglang
from benchmarks.engines.vllm import Step, Vllm
from heuristics import get_policy, trace_policy
from heuristics.engine.serving import ServingEngine
from heuristics.policies.sglang import SGLang
from heuristics.policies.sglang_prefix import SGLangPrefix
from heuristics.policies.vllm_v1 import VllmV1
from heuristics.policies.vllm_v1_prefix import VllmV1Prefix
from kvcore import Call, Instance, Machine, Request, Segment
from kvcore.instance import Node
from workloads.own import own


def workload(seed: int, *, calls: bool, weights: bool, shared: bool) -> Instance:
    """Return 2 to 14 requests on a machine whose memory holds one to four of the largest.

    Those that are `shared` have paths in a tree, near the ends of their prompts, beyond them too.
    """
    draw = random.Random(seed)
    block, scale = draw.choice((1, 2, 4, 16)), draw.choice((1, 1, 2, 4))
    scale *= max(1, block // 2)
    arrivals, now, requests = draw.choice(("zero", "poisson", "bursts")), 0, []
    tree = [draw.choice((k - 1, k - 1, draw.randint(-1, k - 1))) for k in range(draw.randint(1, 12))] if shared else []
    for number in range(draw.randint(2, 14)):
        if arrivals == "poisson":
            now += int(draw.expovariate(1 / draw.choice((1, 3, 8))))
        elif arrivals == "bursts" and draw.random() < 0.3:
            now += draw.randint(1, 20)
        decodes = [draw.randint(1, draw.choice((3, 8, 20)) * scale) for _ in range(draw.choice((1, 1, 2, 3)))]
        segments = [
            Segment(
                decode=decode, call=Call(duration=draw.choice((0, 0, 1, 2, 5, 20)), returns=draw.choice((0, 1, 3, 10)))
            )
            for decode in (decodes[1:] if calls else ())
        ]
        prompt = draw.randint(1, draw.choice((4, 12, 30)) * scale)
        weight = draw.randint(1, 3) if weights else 1
        path = branch(tree, draw.randint(-1, len(tree) - 1)) if shared else []
        if path and draw.random() < 0.7:
            prompt = max(1, len(path) * block + draw.choice((0, 0, 1, draw.randint(-2 * block, 3 * block))))
        request = Request(
            id=f"r{number}", arrival=now, prompt=prompt, weight=weight, segments=(*segments, Segment(decode=decodes[0]))
        )
        path = path[: request.peak // block]
        requests.append(request.replace(path=(f"n{path[-1]}", 1) if path else None))
    peaks = [-(-one.peak // block) for one in requests]
    blocks = draw.randint(max(peaks), max(max(peaks), min(sum(peaks), max(peaks) * draw.choice((1, 2, 4)))))
    machine = Machine(
        memory=blocks * block, block=block, batch_tokens=draw.choice((4, 8, 16, 32, 64, 256)) * draw.choice((1, scale)),
        batch_requests=draw.choice((2, 3, 5, 8, 256)), evict=True, partial=True, drop_and_work=True,
    )  # fmt: skip
    nodes = tuple(
        Node(id=f"n{k}", parent=None if parent < 0 else f"n{parent}", blocks=1) for k, parent in enumerate(tree)
    )
    made = Instance(name=f"seed {seed}", machine=machine, requests=tuple(requests), contents=nodes)
    return own(made) if shared else made


def limited(instance: Instance) -> Instance:
    """Return the instance with limits of outputs, which memory clips or not, and prompts cut at whole blocks.

    In some a long request comes first, so that little is kept free for the others, and they are retracted.
    """
    draw, machine, requests = random.Random(instance.name), instance.machine, list(instance.requests)
    block, memory = machine.block, machine.memory or 0
    if draw.random() < 0.2:
        later, decodes = draw.randint(300, 690), [draw.randint(700, 900), *(draw.randint(5, 120) for _ in requests[1:])]
        requests = [
            one.replace(
                arrival=one.arrival + later * (at > 0), segments=(Segment(decode=max(one.output, decodes[at])),)
            )
            for at, one in enumerate(requests)
        ]
        peaks = [machine.blocks(one.peak) for one in requests]
        memory = (peaks[0] + int(draw.uniform(0.1, 0.5) * sum(peaks[1:]))) * block
    loose = draw.random() < 0.5  # else all limits are the outputs
    for at, one in enumerate(requests if loose else ()):
        limit = draw.choice((None, one.output, one.output + draw.randint(0, 40), 4 * one.output))
        requests[at] = one.replace(max_new=limit)
    if not loose:
        requests = [one.replace(max_new=one.output) for one in requests]
    needed = max(machine.blocks(one.prompt) + 1 + machine.blocks(one.output + 1) for one in requests)
    machine = machine.replace(
        memory=max(needed * block, memory), batch_tokens=None,
        prefill_tokens=draw.choice((4, 8, 16, 32, 64, 256)) * block,
    )  # fmt: skip
    made = instance.replace(machine=machine, requests=tuple(requests))
    return own(made) if made.contents else made


def branch(tree: list[int], node: int) -> list[int]:
    """Return the way from a root to a node."""
    return [*branch(tree, tree[node]), node] if node >= 0 else []


def ours(instance: Instance, policy: ServingEngine) -> tuple[list[Step], bool]:
    """Return the policy's batches, and whether any reuses."""
    batches = trace_policy(instance, policy, compress=False).schedule.batches
    steps = [Step(one.start, [*one.work.items()], dict(one.drop)) for one in batches]
    return steps, any(one.reuse for one in batches)


def difference(theirs: list[Step], mine: list[Step], *, lost: bool) -> int | None:
    """Return the first batch that differs, in start, work, order or, with `lost`, the KV of preempted requests."""
    for at, (one, other) in enumerate(zip(theirs, mine, strict=False)):
        if one[:2] != other[:2] or (lost and one.lost != other.lost):
            return at
    return None if len(theirs) == len(mine) else min(len(theirs), len(mine))


def main() -> None:
    """Compare, and print how many workloads are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = parser.add_mutually_exclusive_group(required=True)
    folder.add_argument("--vllm", type=Path, metavar="FOLDER")
    folder.add_argument("--sglang", type=Path, metavar="FOLDER")
    parser.add_argument("--dynamo", type=Path, metavar="FOLDER", help="with --vllm: its simulator in Dynamo, too")
    parser.add_argument("--policy", help="a vllm-v1.. or sglang, with settings if need be")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", action="store_true", help="requests that call")
    given = parser.parse_args()
    name = given.policy or ("vllm-v1" if given.vllm else "sglang")
    policy = get_policy(name)
    run: Callable[[Instance], list[Step]]
    engine: Vllm | Sglang
    if given.vllm:
        if not isinstance(policy, VllmV1):
            parser.error(f"{name} is not a policy of vLLM's")
        if not (given.vllm / "vllm" / "v1").is_dir():
            parser.error(f"there is no vllm/v1 in {given.vllm}")
        engine = vllm = Vllm(given.vllm)
        run = partial(vllm.run, policy=policy)
    else:
        if not isinstance(policy, SGLang) or policy.ahead or given.calls:
            parser.error(f"{name} is not sglang, or --calls is given")
        if not (given.sglang / "sglang" / "srt").is_dir():
            parser.error(f"there is no sglang/srt in {given.sglang}")
        engine = sglang = Sglang(given.sglang)
        run = partial(sglang.run, policy=policy)
    if given.dynamo is not None:
        if not given.vllm or name != "vllm-v1" or given.calls:
            parser.error("--dynamo goes with --vllm and no --policy")
        seeds = range(given.first, given.first + given.seeds)
        made = (workload(seed, calls=False, weights=False, shared=False) for seed in seeds)
        beside(Dynamo(given.dynamo), made, run, lambda instance: ours(instance, policy)[0])
        return
    shared, weights = isinstance(policy, VllmV1Prefix | SGLangPrefix), isinstance(policy, VllmV1) and policy.priority
    lost = not (given.calls or shared or policy.ahead)
    equal = preempting = reusing = 0
    for seed in range(given.first, given.first + given.seeds):
        instance = workload(seed, calls=given.calls, weights=weights, shared=shared)
        instance = limited(instance) if given.sglang else instance
        theirs, (mine, reuses) = run(instance), ours(instance, policy)
        reusing += reuses
        at = difference(theirs, mine, lost=lost)
        equal += at is None
        preempting += any(step.lost for step in theirs)
        if at is not None:
            print(f"seed {seed}, batch {at}: {engine.name} {theirs[at : at + 1]}, {policy.name} {mine[at : at + 1]}")
    with_calls = " with calls" if given.calls else ""
    print(
        f"{engine.name} and {policy.name}: {equal} of {given.seeds} workloads{with_calls} equal, {preempting} preempt, "
        f"{reusing} reuse"
    )


if __name__ == "__main__":
    main()

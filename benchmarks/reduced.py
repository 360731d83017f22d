"""`python -m benchmarks.reduced NAME TOKENS SEGMENTS OUT.json`: a library instance that programs can close.

Counts are in units of so many tokens, rounded up; of each request the first segments are left, of one token each.
"""

import sys
from pathlib import Path

from kvbound.instances import load_instance
from kvcore.cost import Cost
from kvcore.instance import Instance


def reduced(instance: Instance, tokens: int, segments: int) -> Instance:
    """Return it; nothing returns from a call, and there is no budget."""
    requests = []
    for request in instance.requests:
        first = [each.replace(decode=1) for each in request.segments[:segments]]
        calls = [each.replace(call=each.call and each.call.replace(returns=0)) for each in first[:-1]]
        requests.append(
            request.replace(prompt=-(-request.prompt // tokens), segments=(*calls, first[-1].replace(call=None)))
        )
    machine = instance.machine.replace(
        block=1, memory=(instance.machine.memory or 0) // tokens + 2, batch_tokens=None,
        host_memory=(instance.machine.host_memory or 0) // tokens,
    )  # fmt: skip
    moved = ("tokens", "swap_out_tokens", "swap_in_tokens")
    lines = (line.model_copy(update={name: tokens * getattr(line, name) for name in moved})
             for line in instance.cost.functions)  # fmt: skip
    return instance.replace(machine=machine, requests=tuple(requests), cost=Cost(tuple(lines)))


if __name__ == "__main__":
    name, tokens, segments, out = sys.argv[1:]
    Path(out).write_text(reduced(load_instance(name), int(tokens), int(segments)).to_json(), encoding="utf-8")

"""What copies beside work hold longer than swaps in parts: `python -m benchmarks.copies POLICY INSTANCE.json ..`."""

import sys
from bisect import bisect_right
from itertools import pairwise

from heuristics import get_policy
from heuristics.engine.run import trace_policy
from kvcore.files import read_instance
from kvcore.trace import RequestTrace


def copies(request: RequestTrace) -> list[list[tuple[int, int, bool]]]:
    """Return swaps one way without work between them, as (batch, tokens, out)."""
    found = list[list[tuple[int, int, bool]]]()
    works = [span.batch for span in request.spans]
    moves = sorted((m.batch, m.tokens, m.kind == "swap_out") for m in request.moves if m.kind.startswith("swap"))
    for move in moves:
        last = found[-1][-1] if found else None
        if last and last[2] == move[2] and bisect_right(works, last[0]) == bisect_right(works, move[0] - 1):
            found[-1].append(move)
        else:
            found.append([move])
    return found


def main(policy: str, *files: str) -> None:
    """Print the batches of a copy, the share of memory that it holds longer, and that of batches beyond memory."""
    for file in files:
        instance = read_instance(file)
        trace = trace_policy(instance, get_policy(policy))
        batches, memory = trace.batches, instance.machine.memory or 0
        more, area, found = [0] * len(batches), 0, [each for one in trace.requests for each in copies(one)]
        for copy in found:
            total, done = sum(tokens for _, tokens, _ in copy), 0
            for (first, tokens, out), (following, *_) in pairwise(copy):
                done += tokens
                held = done if out else total - done
                area += held * (batches[following].start - batches[first].start)
                for j in range(first, following):
                    more[j] += held
        beyond = sum(batch.device + extra > memory for batch, extra in zip(batches, more, strict=True))
        print(
            f"{instance.name}: {len(found)} copies of {sum(map(len, found)) / len(found):.2f} batches, at most "
            f"{max(map(len, found))}; {area / memory / batches[-1].end:.2%} of the memory more, "
            f"{beyond / len(batches):.1%} of {len(batches)} batches beyond it"
        )


if __name__ == "__main__":
    main("infercept", *sys.argv[1:])

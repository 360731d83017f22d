"""Reductions of the network without `evict`: when free KV is dropped, where it lies, how prefills are split.

They change lives. In place, one after another: the later ones keep what the earlier ones have done.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvcore import Instance, Request
from tests.reductions.lives import Life, Work, works
from tests.reductions.parts import MOVES


def early_drops(instance: Instance, found: dict[str, Life]) -> None:
    """Drop the KV of a free call at once, if it is dropped in the window, and leave out the swaps before.

    From then on less is held, and nothing is moved.
    """
    for request, life in ((request, found[request.id]) for request in instance.requests):
        for handling, held, begins, towards in windows(request, life):
            window = [life[t] for t in life if begins <= t <= towards[0].slot]
            if handling == "free" and any("drop" in does for does in window):
                for does in window:
                    leave_out(does, *MOVES)
                life.setdefault(begins, {})["drop"] = held


def parts_late(instance: Instance, found: dict[str, Life]) -> None:
    """Move parts of a prefill to the batch of their token, the first ones first, while its budgets allow that.

    Less is held before that batch, and as much in it. Later batches come first: what is full stays full.
    """
    tokens = [(towards, life) for r in instance.requests for life in [found[r.id]] for towards in works(r, life)]
    for towards, life in sorted(tokens, key=lambda token: -token[0][-1].slot):
        *early, last = [work.slot for work in towards]
        while early:
            move_one(life, early[0], last)
            if is_over_budget(instance, found, last):
                move_one(life, last, early[0])
                break
            if not life[early[0]]["work"]:
                leave_out(life[early.pop(0)], "work")


def hosted(instance: Instance, found: dict[str, Life]) -> None:
    """Send the KV of free and swap calls to the host at once, and back with the next work: the host has room for all.

    Work that only refills what is on the host is left out. After the next work as much is resident as there was, and
    before it nothing: the device never holds more.
    """
    for request, life in ((request, found[request.id]) for request in instance.requests):
        for handling, held, begins, towards in windows(request, life):
            if handling not in ("free", "swap"):
                continue
            following = next(work for work in towards if work.device + work.tokens > held)
            for t in life:
                if begins <= t <= following.slot:
                    leave_out(life[t], "work", *MOVES)
            if handling == "swap" or following.slot > begins:
                life.setdefault(begins, {})["swap_out"] = held
                life[following.slot]["swap_in"] = held
            life[following.slot]["work"] = following.device + following.tokens - held


def windows(request: Request, life: Life) -> Iterator[tuple[str, int, int, list[Work]]]:
    """Yield the handling of each call, the KV at its start, the slot after that, and the work up to the next token."""
    towards, token = works(request, life), 0
    for k, call in enumerate(request.calls):
        token += request.segments[k].decode
        yield call.handling, request.context_at_call(k), towards[token - 1][-1].slot + 1, towards[token]


def leave_out(does: dict[str, int], *kinds: str) -> None:
    """Leave out something that is done in a slot."""
    for kind in kinds:
        does.pop(kind, None)


def move_one(life: Life, here: int, there: int) -> None:
    """Process one token in another slot."""
    life[here]["work"] -= 1
    life[there]["work"] += 1


def is_over_budget(instance: Instance, found: dict[str, Life], slot: int) -> bool:
    """Whether more tokens are processed in a slot than a batch may."""
    machine = instance.machine
    here = [w for r in instance.requests for token in works(r, found[r.id]) for w in token if w.slot == slot]
    limits = (machine.batch_tokens, here), (machine.prefill_tokens, [work for work in here if not work.is_decode])
    return any(limit is not None and sum(work.tokens for work in each) > limit for limit, each in limits)

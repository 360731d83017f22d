"""Runs: parts take turns, each in a process of its own, so that a crash or a hang is a finding and no end."""

import multiprocessing
import os
import resource
import signal
import time
from collections import Counter
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numba  # noqa: F401  # here, as each process would take seconds to load it

from tests.fuzz.case import Finding, Part, judge
from tests.fuzz.report import KEPT, State
from tests.fuzz.shrink import shrink

TURN = 60.0
"""Seconds of the processor, with those of its processes, after which a part gives way, between two numbers."""
HANG = 900
"""Seconds of a processor after which a case has hung."""
STARVED = 1800.0
"""Seconds of the clock after which a case that has not hung is given up: no finding, it may have had no processor."""
MEMORY = 6 << 30
"""Bytes that a process may take."""


def look(part: Part, seed: int, number: int, known: Counter[str], send: Any) -> None:
    """Look at all cases of a number; `send` gets every finding (kept ones twice: as found, and made smaller)."""
    seen: Counter[str] = Counter()
    kinds: list[str] = []
    began = processor()
    for case in part.cases(seed, number):
        finding = judge(part, case, seen)
        if finding is None:
            continue
        kinds.append(finding.kind)
        known[finding.kind] += 1
        if known[finding.kind] <= KEPT:
            send(("found", number, finding))
            smaller = shrink(part, finding, lambda: send(("alive", number)))
            send(("found", number, smaller))
    send(("done", number, dict(seen), kinds, processor() - began))


def processor() -> float:
    """Return the seconds of the processor that this process and those that it has started have had."""
    return sum(os.times()[:4])


def limit_processor() -> None:
    """Let the system end this process after HANG more seconds of the processor (SIGXCPU)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + HANG
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def turn(part: Part, seed: int, number: int, known: Counter[str], channel: Connection) -> None:
    """Look at number after number, in a process of its own, until the turn is over or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def send(message: object) -> None:
        limit_processor()
        channel.send(message)

    limit_processor()
    while processor() < TURN and os.getppid() != 1:
        look(part, seed, number, known, send)
        number += 1
    channel.close()
    os._exit(0)  # solver libraries may complain while they are unloaded


class Turn(NamedTuple):
    """A turn that goes on."""

    part: Part
    process: Any


def run(parts: list[Part], state: State, hours: float, jobs: int) -> None:
    """Give the parts their turns until the time is over or KeyboardInterrupt; what is finished is always kept."""
    end = time.monotonic() + 3600 * hours
    turns: dict[Connection, Turn] = {}
    heard: dict[Connection, float] = {}
    waiting = list(parts)
    try:
        while time.monotonic() < end:
            while len(turns) < jobs and waiting:
                channel, begun = start(waiting.pop(0), state)
                turns[channel], heard[channel] = begun, time.monotonic()
            for channel in wait(list(turns), timeout=max(0.0, min(1.0, end - time.monotonic()))):
                assert isinstance(channel, Connection)
                heard[channel] = time.monotonic()
                if not receive(channel, turns[channel].part, state):
                    waiting.append(finish(channel, turns.pop(channel), state, crashed=True))
            for channel in [c for c in turns if time.monotonic() - heard[c] > STARVED]:
                waiting.append(finish(channel, turns.pop(channel), state, starved=True))
    finally:
        for channel, begun in turns.items():
            while channel.poll() and receive(channel, begun.part, state):
                pass
            finish(channel, begun, state)


def start(part: Part, state: State) -> tuple[Connection, Turn]:
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    of = state.of(part.name)
    given = (part, state.document["seed"], of["next"], Counter(of["findings"]), theirs)
    process = multiprocessing.get_context("fork").Process(target=turn, args=given)
    process.start()
    theirs.close()
    return ours, Turn(part, process)


def receive(channel: Connection, part: Part, state: State) -> bool:
    """Take in a message; say whether there was one."""
    try:
        what, number, *rest = channel.recv()
    except (EOFError, OSError):
        return False
    if what == "done":
        state.take(part.name, number, *rest)
        state.save()
    elif what == "found":
        file = state.write(part.name, number, rest[0])
        print(f"{part.name} {number}: {rest[0].kind} ({file})", flush=True)
    return True


def finish(channel: Connection, turn: Turn, state: State, *, crashed: bool = False, starved: bool = False) -> Part:
    """End a turn. A process that has crashed or hung leaves a finding: the number that it was looking at."""
    if not crashed:
        turn.process.kill()
    turn.process.join()
    channel.close()
    name, number, code = turn.part.name, state.of(turn.part.name)["next"], turn.process.exitcode
    if starved or (crashed and code):
        kind = "starved" if starved else "hangs" if code == -signal.SIGXCPU else f"dies with exit code {code}"
        for case in islice(turn.part.cases(state.document["seed"], number), 1):
            file = state.write(name, number, Finding(kind, "one of the cases of this number", case))
            print(f"{name} {number}: {kind} ({file})", flush=True)
        state.take(name, number, {"starved": 1} if starved else {}, [] if starved else [kind])
    state.save()
    return turn.part

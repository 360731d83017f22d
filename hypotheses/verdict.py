"""The verdict on a hypothesis, from its family."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any

import kvcore
from bounds.clock import Timer, limited, now
from hypotheses.case import Case, Fails, Undecided, claims
from hypotheses.hypothesis import Hypothesis
from kvcore.instance import Instance
from kvcore.shown import brief
from solvers.exact import compile_searches

TIME_LIMIT = 60.0  # seconds for one hypothesis, unless told otherwise
CLAIMED = {"proved": "claimed to hold", "refuted": "claimed to fail"}  # where an optimum is only claimed
MOST = 8  # requests that are described of an instance


@dataclass
class Verdict:
    """The cases that held or were not decided, and the first that failed."""

    name: str
    hypothesis: Hypothesis
    held: int = 0
    undecided: int = 0
    claimed: int = 0  # the cases of those judged that rest on an optimum that is claimed, not certified
    complete: bool = False  # whether every case of the family was judged, or one failed that ends it
    out_of_time: bool = False
    interrupted: bool = False
    largest: Fraction | None = None  # the largest number that the predicate gave for a case
    fails: Fails | None = None
    fails_by_claim: bool = False  # whether the failure that is shown rests on such an optimum
    failing: tuple[Instance, ...] = ()
    skipped: str | None = None
    seconds: float = 0.0
    files: list[str] = field(default_factory=list)
    failed: int = 0
    total: Fraction = Fraction(0)  # the sum of the numbers that the predicate gave
    told: str | None = None  # what the predicate said of a case that held

    def __repr__(self) -> str:
        counts = f"{self.held} cases held, {self.failed} failed, {self.undecided} undecided"
        why = self.skipped or (self.fails.why if self.fails else "nothing failed")
        return f"Verdict({self.name!r}, {brief(self.hypothesis.statement)}: {self.verdict}, {counts}, {brief(why)})"

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.skipped is not None:
            return "skipped"
        if self.fails is not None:
            return CLAIMED["refuted"] if self.fails_by_claim else "refuted"
        if self.undecided or self.out_of_time or self.interrupted or not self.held:
            return "undecided"
        if not (self.complete and self.hypothesis.family.complete):
            return "no counterexample"
        return CLAIMED["proved"] if self.claimed else "proved"

    @property
    def as_stated(self) -> bool:
        """Whether it is what the file states, if only as a claim.

        Where a proof is stated, part of the family is enough if nothing fails.
        """
        if self.verdict == "no counterexample" and not self.complete:
            return self.hypothesis.states in ("proved", "no counterexample")
        return self.verdict in (self.hypothesis.states, CLAIMED.get(self.hypothesis.states), "skipped")

    def row(self) -> dict[str, Any]:
        """Return the record for scripts."""
        judged, claim = self.held + self.failed, self.hypothesis
        counted = {"failed": self.failed, "mean": f"{float(self.total / judged):.4f}" if self.total else None}
        return {
            "hypothesis": self.name,
            **{name: getattr(claim, name) for name in ("statement", "source", "sentence", "note")},
            "family": claim.family.what, "verdict": self.verdict, "stated": claim.states, "as_stated": self.as_stated,
            "held": self.held, "undecided": self.undecided, **({"claimed": self.claimed} if self.claimed else {}),
            "all_judged": self.complete, "interrupted": self.interrupted,
            "largest": None if self.largest is None else str(self.largest), **(counted if claim.every else {}),
            "why": self.skipped or (self.told if self.fails is None else self.fails.why),
            "counterexample": None if self.fails is None else [describe(instance) for instance in self.failing],
            "files": self.files, "seconds": round(self.seconds, 3),
            "versions": {"kvbound": kvcore.__version__, "python": platform.python_version()},
        }  # fmt: skip


def check(
    name: str, hypothesis: Hypothesis, *, take: int | None = None, time_limit: float = TIME_LIMIT,
    work: float | None = None,
) -> Verdict:  # fmt: skip
    """Judge the cases of a hypothesis (at most `take`), the smallest first, until one fails.

    `time_limit` is in processor seconds, `work` is counted. Ctrl-C keeps what was found (`interrupted`).
    """
    verdict = Verdict(name, hypothesis, skipped=hypothesis.family.missing)
    compile_searches()
    timer = Timer()
    try:
        if verdict.skipped is None:
            with limited(time_limit, work) as limit:
                _judge_all(verdict, now() + limit, take)
    except KeyboardInterrupt:
        verdict.interrupted = True
    verdict.seconds = timer.seconds
    return verdict


def _judge_all(verdict: Verdict, deadline: float, take: int | None) -> None:
    cases = list(verdict.hypothesis.family)
    for instances in islice(cases, take):
        if now() > deadline:
            verdict.out_of_time = True
            return
        _judge(verdict, Case(instances, deadline))
        if verdict.fails is not None and not verdict.hypothesis.every:
            break
    ended = verdict.fails is not None and not verdict.hypothesis.every
    verdict.complete = ended or take is None or take >= len(cases)


def _judge(verdict: Verdict, case: Case) -> None:
    claims()  # what was claimed before is of no concern
    try:
        answer = verdict.hypothesis.predicate(case)
    except Undecided:
        verdict.undecided += 1
        return
    claimed = bool(claims()) and not (isinstance(answer, Fails) and answer.certain)
    verdict.claimed += claimed
    if isinstance(answer, Fails):
        number: Fraction | str | None = answer.number if verdict.hypothesis.every else None
        verdict.failed += 1
        if verdict.fails is None or (verdict.fails_by_claim and not claimed):
            verdict.fails, verdict.failing = answer, answer.shown or case.instances
            verdict.fails_by_claim = claimed
    else:
        number = answer
        verdict.held += 1
    if isinstance(number, str):
        verdict.told = number
    elif number is not None:
        verdict.largest = number if verdict.largest is None else max(verdict.largest, number)
        verdict.total += number


def describe(instance: Instance) -> str:
    """Return an instance in one line: the machine's limits, and how each request differs from the plainest."""
    machine = instance.machine
    limits = {
        "M": machine.memory, "H": machine.host_memory or None, "b": None if machine.block == 1 else machine.block,
        "C": machine.batch_tokens, "P": machine.prefill_tokens, "requests": machine.batch_requests,
    }  # fmt: skip
    switches = [name for name in ("hybrid", "chunked", "evict", "partial", "pause") if getattr(machine, name)]
    sizes = ", ".join(f"{name}={limit}" for name, limit in limits.items() if limit is not None)
    requests = "; ".join(_describe_request(request.model_dump()) for request in instance.requests[:MOST])
    if len(instance.requests) > MOST:
        requests += f"; .. ({len(instance.requests)} of {instance.name})"
    return f"{sizes} ({', '.join(switches) or 'no switch'}): {requests}"


def _describe_request(request: dict[str, Any]) -> str:
    text = f"{request['id']}: prompt {request['prompt']}"
    if request["arrival"]:
        text += f" at {request['arrival']}"
    if request.get("path") is not None:
        text += f" after {request['path'][1]} of {request['path'][0]}"
    for segment in request["segments"]:
        text += f", decode {segment['decode']}"
        if segment["call"] is not None:
            call = segment["call"]
            returns = f" returning {call['returns']}" if call["returns"] else ""
            text += f", {call['handling']} call of {call['duration']}{returns}"
    return text

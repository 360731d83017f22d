"""The four published schedules of the worked example of MARS (Figure 1) and LAMPS (Figure 3), slot by slot.

Each is the list of its batches, one tick each: tick, who works, moves. In the published rows KV leaves the device as
soon as the call starts; here a move is made at the start of a batch, and a drop alone is no batch, so that in FCFS
(tick 6) and SJF+API (tick 9) one more token is held until the next batch. A swap-out is a batch by itself where nothing
else runs (FCFS, tick 10).
"""

from dataclasses import dataclass

from kvcore import Batch, Instance, Schedule
from workloads.builtin import builtin_instance


@dataclass(frozen=True)
class Published:
    """A published schedule: its batches, completions and memory row; `held` is the memory under the semantics."""

    batches: tuple[Batch, ...]
    completions: dict[str, int]
    published_memory: str
    memory: str

    def schedule(self, instance: Instance) -> Schedule:
        return Schedule(instance_sha256=instance.sha256, batches=self.batches)


def mars() -> Instance:
    return builtin_instance("mars-figure1")


def _runs(row: str, moves: dict[int, dict[str, dict[str, int]]]) -> tuple[Batch, ...]:
    """One batch of one token for every tick in which `row` names a request (by its digit), or moves are made."""
    batches = []
    for tick, who in enumerate(row):
        if who != " " or tick in moves:
            work = {} if who == " " else {f"R{who}": 1}
            batches.append(Batch(start=tick, work=work, **moves.get(tick, {})))
    return tuple(batches)


FCFS = Published(
    _runs("111112 133 3 22", {7: {"drop": {"R2": 1}}, 10: {"swap_out": {"R3": 2}}, 11: {"swap_in": {"R3": 2}}}),
    {"R1": 8, "R2": 15, "R3": 12},
    published_memory="123456561203012",
    memory="123456661203012",
)
SJF = Published(
    _runs("233131111  122", {1: {"drop": {"R2": 1}}, 3: {"swap_out": {"R3": 2}}, 4: {"swap_in": {"R3": 2}}}),
    {"R1": 12, "R2": 14, "R3": 5}, published_memory="11214234555612", memory="11214234555612",
)  # fmt: skip
SJF_API = Published(
    _runs("331311112 1     22", {2: {"swap_out": {"R3": 2}}, 3: {"swap_in": {"R3": 2}}, 10: {"drop": {"R2": 1}}}),
    {"R1": 11, "R2": 18, "R3": 4},
    published_memory="121423456560000012",
    memory="121423456660000012",
)
MARS = Published(
    _runs("332311111  122", {2: {"swap_out": {"R3": 2}}, 3: {"swap_in": {"R3": 2}, "drop": {"R2": 1}}}),
    {"R1": 12, "R2": 14, "R3": 4}, published_memory="12131234555612", memory="12131234555612",
)  # fmt: skip
PUBLISHED = {"FCFS": FCFS, "SJF": SJF, "SJF+API": SJF_API, "MARS": MARS}

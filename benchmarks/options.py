"""What each option of a search is worth: it runs with half of it, and with twice, on instances of the library.

`python -m benchmarks.options [GROUP ..]` writes the rows of these groups in `records/options.csv`, one after another
(all of them: half an hour). What a run reaches is its bound over its value. Its time limit is of the processor; for
`solve`, which has processes, of the clock.
"""

import csv
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any
from unittest.mock import patch

from benchmarks.data import made
from bounds.events import EventOptions
from bounds.just_in_time import search, search_near
from bounds.tuning import Options
from heuristics import best_schedule
from kvcore.certificates import Alone, InvalidCertificate
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from library import Library
from library.library import table_rows
from solvers import solve
from solvers.messages import Bound, Found, Message, SolveJob
from solvers.neighbourhoods import improve as repair
from solvers.option_names import GROUPS, holding, names_of, options_of, parsed, rows_of_options
from solvers.ways import WAYS

RECORD = Path(__file__).parent / "records" / "options.csv"
SEEDS = range(3)  # of runs at the defaults, whose spread is noise
SECONDS = {"auto": 2.0, "bound": 2.0, "just-in-time": 7.0, "improve": 2.0}
"""Of a run of a way; 0.4 of any other. `auto` and `bound` share theirs, others get to their last options in it."""
SLICES = "infercept-slice-k8-seed0-evict1", "infercept-slice-k16-seed0-evict0"
CASES = {
    "solve": ("auto", SLICES[0], "azure-code-7b-0-100", "infercept-sample-k6-evict0"),
    "ladder": ("bound", SLICES[1], "mix-siso-liso-32 for total-flow-time"),
    "slots": ("slots", "mars-like-n8-seed0", "infercept-sample-k6-evict0"),
    "configurations": ("configurations", "hindsight-n14-M30-seed14", "hindsight-n25-M30-seed0"),
    "speed": ("speed", "mix-siso-liso-32 for total-flow-time", "mix-siso-lilo-32 for max-flow-time"),
    "events": ("events", "infercept-sample-k4-evict1", "mars-like-n6-seed0"),
    "just-in-time": ("just-in-time", "infercept-ve-k3-chunked1", "ve-2", "real-3-math-s2"),
    "late-tail": ("late-tail", "slo-toolbench-r8 for p90-flow-time", "slo-mixed-r4 for p90-ttft",
                  "azure-code-7b-0-100 for p90-ttft"),
    "slot-dual": ("slot-dual", "hindsight-n30-M30-seed0", "hindsight-benchmark-seed7", "infercept-sample-k4-evict0"),
    "improve": ("improve", "azure-code-7b-0-100", "hindsight-n30-M30-seed0", "mars-like-n20-seed0 for max-flow-time",
                "equal-I16-O128 for total-flow-time", "slo-infercept-r8"),
    "steering": ("improve", "azure-code-70b-0-100", "azure-code-7b-0-100", "mix-siso-liso-32 for total-flow-time"),
    "neighbourhoods": ("repair", SLICES[1], "hindsight-n60-M100-P50-seed0", "hindsight-n100-M400-P50-seed0"),
}  # fmt: skip
"""The way that runs for the options of each group (or a search by itself), and instances, some with an objective."""
Run = tuple[float, float]  # what it reached, and in how many seconds


def half_and_double(option: Field[Any]) -> list[str]:
    """Return it with half of what it has above its least value, and twice as much; "" where that is the same."""
    least, most = option.metadata["least"], option.metadata["most"]
    numbers = option.default if isinstance(option.default, tuple) else (option.default,)
    low, is_whole, found = least or 0, isinstance(numbers[0], int), []
    for factor in (0.5, 2.0):
        made = [min(low + factor * (number - low), most) for number in numbers]
        made = [max(round(number), int(least is None)) for number in made] if is_whole else made
        found.append("" if tuple(made) == numbers else ",".join(f"{number:.12g}" for number in made))
    return found


@cache
def given(case: str) -> tuple[Instance, str, str, Schedule, Any]:
    """Return the instance of a case, its objective, and the best of some policies: its name, schedule and value."""
    (source, _, objective), library = case.partition(" for "), Library()
    if source in library.names:
        record = library.record(source)
        instance, objective = library.instance(record), objective or next(iter(record.objectives))
    else:
        instance = made(source)
    policy, schedule, trace = best_schedule(instance, objective)
    return instance, objective, policy, schedule, objective_value(trace, objective)


def timely(instance: Instance, objective: str, value: Any, is_over: Callable[[], bool]) -> Iterator[Schedule]:
    """Yield what schedules just in time are found, as `events` finds them, but for its wider search."""
    found = search(instance, objective, EventOptions.widths[0], value, is_over)
    if found is not None:
        yield found
        value = objective_value(verify_schedule(instance, found), objective)
    yield from search_near(instance, objective, 200, value, is_over)


def run(way: str, case: str, options: Mapping[str, Any], seed: int) -> Run:
    """Run a way in this process (but for the workers of a solve)."""
    instance, objective, policy, schedule, value = given(case)
    seconds = SECONDS.get(way, 0.4)
    if way == "auto":
        result = solve(instance, objective, time_limit=seconds, threads=1, seed=seed, options=options)
        return float(Fraction(result.bound or 0) / Fraction(result.value or value)), result.seconds
    bounds, values = [Alone().value(instance, objective)], [value]

    def take(message: Message) -> None:
        if isinstance(message, Bound):
            bounds.append(message.value)
        elif isinstance(message, Found):
            values.append(objective_value(verify_schedule(instance, message.schedule), objective))

    options = options if way == "bound" else {"ladder.slack": 8.0, **options}  # a first proof is not refused
    began = time.process_time()
    with suppress(BadInput, InvalidCertificate), patch.object(time, "monotonic", time.process_time), holding(options):
        if way == "repair":
            take(Found(repair(instance, objective, schedule, seconds=seconds, seed=seed), None))
        elif way == "just-in-time":
            for each in timely(instance, objective, value, lambda: time.process_time() > began + seconds):
                take(Found(each, None))
        else:
            runs = next(each for each in WAYS.values() if each.formulation == way)
            by = runs.solver.name
            job = SolveJob(instance, objective, way, by, None, value, schedule, seconds, 8000, 1, seed, (policy,))
            runs.runner()(job, take)
    return float(Fraction(max(bounds)) / Fraction(min(values))), time.process_time() - began


def options_read(group: str, way: str, case: str) -> set[str]:
    """Return which options of a group a run reads."""
    made, read = options_of(group), set[str]()

    def see(options: Options, name: str) -> Any:
        if type(options) is made:
            read.add(f"{group}.{name}")
        return object.__getattribute__(options, name)

    with patch.object(Options, "__getattribute__", see):
        run(way, case, {}, 0)
    return read


def measured(group: str) -> dict[tuple[str, str], dict[str, list[Run]]]:
    """Return the runs with half and double of each option, and at the defaults, by case; none of what is not read."""
    way, *cases = CASES[group]
    wanted = [(name, each, 0) for name, one in names_of(group).items() for each in half_and_double(one) if each]
    for k in SEEDS:  # at the start, in the middle and at the end
        wanted.insert(k * len(wanted) // max(SEEDS), (group, "", k))
    runs = defaultdict[tuple[str, str], dict[str, list[Run]]](lambda: defaultdict(list))
    run(way, cases[0], {}, 0)  # it loads kernels
    for case in cases:
        read = options_read(group, way, case)
        for name, setting, seed in wanted:
            if name in read or not setting:
                options = parsed({name: setting} if setting else {})
                runs[name, setting][case].append(run(way, case, options, seed))
    return runs


def summary(group: str) -> Iterator[dict[str, str]]:
    """Yield a row for each option, of the geometric means over the instances on which it is read.

    It `moved` where what is reached differs from that at the defaults by more than those differ among each other.
    """
    runs = measured(group)
    defaults = {case: [*zip(*made, strict=True)] for case, made in runs[group, ""].items()}
    for (name, one), (_, default, *_) in zip(names_of(group).items(), rows_of_options(group), strict=True):
        row, read, moved = {"option": name, "default": default}, set[str](), set[str]()
        for side, setting in zip(("half", "double"), half_and_double(one), strict=True):
            found = {case: made[0] for case, made in runs.get((name, setting), {}).items()}
            ratios = [[value / median(known) for value, known in zip(made, defaults[case], strict=True)]
                      for case, made in found.items()]  # fmt: skip
            means = [f"{geometric_mean(column):.4f}" for column in zip(*ratios, strict=True)] or ["", ""]
            row |= {side: setting, f"{side}_reached": means[0], f"{side}_seconds": means[1]}
            read |= {*found}
            for case, (reached, _) in found.items():
                low, high = min(defaults[case][0]), max(defaults[case][0])
                moved |= {case} if not 2 * low - high <= reached <= 2 * high - low else set()
        yield row | {"read": str(len(read)), "moved": str(len(moved))}


def main(groups: Iterable[str]) -> None:
    """Measure groups, and write their rows into the record; an option with another default has none any more."""
    rows = {(row["option"], row["default"]): row for row in table_rows(RECORD)}
    for group in groups:
        rows |= {(row["option"], row["default"]): row for row in summary(group)}
        with RECORD.open("w", newline="") as file:
            table = csv.DictWriter(file, next(iter(rows.values())), lineterminator="\n")
            table.writeheader()
            table.writerows(rows[name, default] for name, default, *_ in rows_of_options() if (name, default) in rows)


if __name__ == "__main__":
    main(sys.argv[1:] or GROUPS)

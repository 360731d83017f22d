"""From a study to its cells."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bounds.clock import CLOCK, SECOND
from costmodels import get_cost
from heuristics import POLICIES, get_policy
from heuristics.load import scaled
from kvcore.errors import BadInput, unknown
from kvcore.files import printable, read_instance, valid
from kvcore.instance import Instance, Machine
from kvcore.metrics import check_objective
from kvcore.parameters import fraction
from solvers.ways import CERTIFYING
from sweeps.cell import Cell
from sweeps.study import Bounds, Instances, Scalar, Solvers, Study, points, values
from workloads.builtin import BUILTIN, builtin_instance
from workloads.generators import KINDS, generate

Point = dict[str, Scalar]
WHOLE = ("n", "seed", "prompt", "output")
WORDS = ("mix",)
FRACTIONS = ("rate", "cv", "minutes", "slo_ttft", "slo_normalized", "share")


class Drawn(NamedTuple):
    """An instance of a family, or why it cannot be made."""

    label: str
    name: str
    instance: Instance | None
    problem: str = ""


class GridMethod(NamedTuple):
    """A policy, a solver or a bound with its options; `seconds` are its own limit by the clock."""

    kind: Any
    name: str
    options: dict[str, Any]
    seconds: float = 0.0


def cells_of(study: Study, folder: Path = Path()) -> list[Cell]:
    """Return the cells of a study, each once; paths of files start at `folder`.

    An impossible instance gives cells that fail. BadInput: a name or a parameter is not known, or no instance of a
    family is possible.
    """
    for objective in study.objectives:
        check_objective(objective)
    runs = [*_policies(study), *(run for solver in study.solvers for run in _solver(solver)), *_bounds(study)]
    cells = [
        Cell(
            drawn.label, drawn.name, drawn.instance, objective, handling, run.kind, run.name, run.options,
            study.limit + run.seconds, study.memory_limit, drawn.problem,
        )
        for family in study.instances
        for drawn in _instances(family, folder)
        for objective in study.objectives
        for handling in study.handlings
        for run in runs
    ]  # fmt: skip
    return list({cell.key: cell for cell in reversed(cells)}.values())[::-1]


def _policies(study: Study) -> Iterator[GridMethod]:
    for group in study.policies:
        for name in POLICIES if group.names == "all" else group.names:
            get_policy(name)
            for predictions in group.predictions:
                for seed in values("seed", group.seed):
                    yield GridMethod("policy", name, {"predictions": predictions, "seed": _whole("seed", seed)})


def _solver(solver: Solvers) -> Iterator[GridMethod]:
    plain = solver.formulation if solver.solver == "auto" else f"{solver.formulation} on {solver.solver}"
    options = solver.model_dump(exclude={"label"})
    for seed in values("seed", solver.seed):
        yield GridMethod("solver", solver.label or plain, options | {"seed": _whole("seed", seed)}, _clock(solver))


def _bounds(study: Study) -> Iterator[GridMethod]:
    known = ["auto", *(way.formulation for way in CERTIFYING)]
    for bound in study.bounds:
        if bound.method not in known:
            raise unknown("bound", bound.method, known)
        options = bound.model_dump(exclude={"label"})
        yield GridMethod("bound", bound.label or f"bound by {bound.method}", options, _clock(bound))


def _clock(limits: Solvers | Bounds) -> float:
    return CLOCK * (limits.time_limit if limits.work is None else limits.work / SECOND)


def _instances(family: Instances, folder: Path) -> list[Drawn]:
    made = [_drawn(family, point, folder) for point in _points(family)]
    if all(drawn.instance is None for drawn in made):
        raise BadInput(f"{made[0].name}: {made[0].problem}")
    return made


def _points(family: Instances) -> list[Point]:
    for key, given, known in (("builtin", family.builtin, BUILTIN), ("generate", family.generate, KINDS)):
        if given is not None and given not in known:
            apart = "; what follows a colon stands under `parameters`" * (":" in given)
            raise BadInput(f"{key} = {given!r}{apart}: there are {', '.join(known)}")
    machine = {f"machine.{name}": axis for name, axis in family.machine.items()}
    files: dict[str, Any] = {} if family.files is None else {"file": family.files}
    return points({**files, **family.parameters, **machine, "load": family.load})


def _drawn(family: Instances, point: Point, folder: Path) -> Drawn:
    machine = {name.removeprefix("machine."): value for name, value in point.items() if name.startswith("machine.")}
    given = {name: value for name, value in point.items() if name != "load" and not name.startswith("machine.")}
    label = _label(family, {**given, **machine, "load": point["load"]})
    try:
        instance = _with_machine(_source(family, given, folder), machine)
        instance = scaled(instance, fraction("load", str(point["load"])))
    except BadInput as error:
        what = ",".join(f"{name}={value}" for name, value in point.items())
        return Drawn(label, f"{family.builtin or family.generate or ''}:{what}", None, str(error))
    return Drawn(label, instance.name, instance)


def _label(family: Instances, known: dict[str, Scalar]) -> str:
    plain = family.builtin or family.generate or Path(str(known.get("file"))).stem
    try:
        label = plain if family.label is None else re.sub(r"\{(.*?)\}", lambda name: str(known[name[1]]), family.label)
    except KeyError:
        raise BadInput(f"label = {family.label!r}: in braces may stand {', '.join(known)}") from None
    return printable(label)


def _source(family: Instances, given: Point, folder: Path) -> Instance:
    if family.builtin is not None:
        text = ",".join(f"{name}={value}" for name, value in given.items())
        return builtin_instance(f"{family.builtin}:{text}" if text else family.builtin)
    if family.generate is not None:
        return _generated(family.generate, given, family.cost or "unit")
    return _file(folder / str(given["file"]))


_file = cache(read_instance)


def _generated(kind: str, given: Point, cost: str) -> Instance:
    model = get_cost(cost)
    arguments: dict[str, Any] = {name: _argument(name, value) for name, value in given.items()}
    return generate(kind, machine=model.machine, cost=model.make(), tick=model.tick, **arguments)


def _argument(name: str, value: Scalar) -> int | str | Fraction:
    if name in WHOLE:
        return _whole(name, value)
    if name in FRACTIONS:
        return fraction(name, str(value), zero=name == "share")
    if name in WORDS:
        return str(value)
    raise BadInput(f"{name!r} is no parameter of drawn instances; they are {', '.join((*WHOLE, *FRACTIONS, *WORDS))}")


def _whole(name: str, value: Scalar) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise BadInput(f"{name} = {value!r}: give whole numbers of at least 0, and below 2^63")
    return value


def _with_machine(instance: Instance, changed: Point) -> Instance:
    if not changed:
        return instance
    with valid(f"{instance.name} with another machine"):
        machine = Machine.model_validate({**instance.machine.model_dump(), **changed})
        words = ",".join(f"{name}={value}" for name, value in changed.items())
        return instance.replace(name=f"{instance.name}, {words}"[:200], machine=machine)

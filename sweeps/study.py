"""What a study file (TOML) may say (`docs/sweeps.md`)."""

import re
import tomllib
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kvcore.errors import BadInput
from kvcore.files import first_error, read_text, said
from kvcore.instance import Name, Noun

Scalar = bool | int | float | str
Axis = Scalar | list[Scalar]  # one value, a list of values, or a range of whole numbers in text such as "0..49"
Seconds = Annotated[float, Field(ge=0.1, le=10**7)]
Work = Annotated[int, Field(ge=1)]
Mebibytes = Annotated[int, Field(ge=100, le=10**7)]
Names = Annotated[list[str], Field(min_length=1)]
MOST_BYTES = 2**22  # a study file larger than this is refused before it is read
DOTTED = re.compile(r"(?:\.\s*+[\w\"'-]++\s*+){50}")  # whose reading takes time in the square of its parts
MOST = 100_000  # values that a range, and points that a grid of parameters, may have


class StudySection(Noun, BaseModel):
    """A part of a study; unknown keys are refused."""

    model_config = ConfigDict(strict=False)


class Instances(StudySection):
    """A family of built-in, drawn or read instances, one for every combination of the lists."""

    builtin: str | None = None
    generate: str | None = None
    files: Names | None = None
    parameters: dict[str, Axis] = {}
    machine: dict[str, Axis] = {}  # keys of the machine that are changed
    load: Axis = 1  # arrivals come so many times as fast
    cost: str | None = None  # the cost of drawn ones (unit unless given)
    label: Name | None = None  # in the summary; `{NAME}` stands for a parameter, a key of the machine, or the load

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if [self.builtin, self.generate, self.files].count(None) != 2:
            raise ValueError("give one of builtin, generate and files")
        if self.files is not None and self.parameters:
            raise ValueError("parameters are of builtin or generate, not of files")
        if self.cost is not None and self.generate is None:
            raise ValueError("cost is of drawn instances (generate); others have theirs")
        return self


class Policies(StudySection):
    """Policies, their beliefs about requests, and the seeds of the noise."""

    names: Names | Literal["all"]
    predictions: Names = ["exact"]
    seed: Axis = 0


class Solvers(StudySection):
    """One way to solve, with its limits; the keys are the options of `kvbound solve`."""

    formulation: str = "auto"
    solver: str = "auto"
    time_limit: Seconds = 60.0
    work: Work | None = None
    gap: Annotated[float, Field(ge=0)] | None = None
    warm_start: str = "best"
    threads: Annotated[int, Field(ge=1)] = 1
    memory_limit: Mebibytes = 4000
    seed: Axis = 0
    label: Name | None = None  # what it is called in the summary (its formulation unless given)


class Bounds(StudySection):
    """One way to prove a bound without a schedule; the keys are the options of `kvbound bound`."""

    method: str = "auto"
    time_limit: Seconds = 60.0
    work: Work | None = None
    label: Name | None = None  # what it is called in the summary ("bound by METHOD" unless given)


class Study(StudySection):
    """Each instance with each objective and handling by each policy, each solver and each bound."""

    name: Name = "study"
    objectives: Names = ["total-flow-time"]
    handlings: Annotated[list[Literal["as-given", "free"]], Field(min_length=1)] = ["as-given"]
    limit: Seconds = 600.0  # after which the process of a cell is ended; those that a solver may take come on top
    memory_limit: Mebibytes = 4000  # of the process of a cell; those of its solver have their own limit
    instances: Annotated[list[Instances], Field(min_length=1)]
    policies: list[Policies] = []
    solvers: list[Solvers] = []
    bounds: list[Bounds] = []

    @model_validator(mode="after")
    def _something_to_run(self) -> Self:
        if not (self.policies or self.solvers or self.bounds):
            raise ValueError("give [[policies]], [[solvers]] or [[bounds]]: there is nothing to run")
        return self


def read_study(source: str | Path) -> Study:
    """Read a study file. BadInput says in one line what is wrong."""
    text = read_text(source, MOST_BYTES)
    if DOTTED.search(text):
        raise BadInput(f"{source}: nested too deeply")
    try:
        return Study.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise BadInput(f"{source}: {first_error(error)}") from None
    except RecursionError:
        raise BadInput(f"{source}: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, too
        raise BadInput(f"{source}: not TOML: {said(error)}") from None


def values(name: str, axis: Axis) -> list[Scalar]:
    """Return the values of an axis. BadInput for an empty list, or an empty or too long range."""
    if isinstance(axis, str) and (match := re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", axis)):
        first, last = int(match[1]), int(match[2])
        if not first <= last < first + MOST:
            raise BadInput(f"{name} = {axis!r}: a range goes up, and has at most {MOST} values")
        return list(range(first, last + 1))
    if axis == []:
        raise BadInput(f"{name}: the list is empty")
    return axis if isinstance(axis, list) else [axis]


def points(axes: dict[str, Axis]) -> list[dict[str, Scalar]]:
    """Return every combination of the values of some axes, the last one changing fastest."""
    lists = {name: values(name, axis) for name, axis in axes.items()}
    if (count := prod(map(len, lists.values()))) > MOST:
        raise BadInput(f"{', '.join(lists)}: {count} combinations, which is more than {MOST}")
    return [dict(zip(lists, chosen, strict=True)) for chosen in product(*lists.values())]

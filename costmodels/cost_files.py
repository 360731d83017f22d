"""Reading, writing and making cost files (classes in `kvcore.cost_file`).

    file = cost_file(found, name="h200-1b", tick=Fraction(1, 10**9), machine=machine, model="llama-3.2-1b",
                     device={"name": "NVIDIA H200"}, versions={"torch": "2.11"}, observations=observations)
    write_cost(file, "cost.json")
    read_cost("cost.json")

`as_model` gives what `--cost` takes.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from costmodels.cost_model import CostModel
from costmodels.fitted import Fit
from kvcore.cost_file import CostFile, Fact, Observation
from kvcore.files import parse, read_text, write_text
from kvcore.instance import Machine


def as_model(file: CostFile, source: str) -> CostModel:
    """Return the cost model of a file, as `--cost` takes it; `source` says where it is from."""
    return CostModel(
        lambda: file.cost, file.tick_seconds, file.machine, file.name, source, Fraction(file.rounding_error)
    )


def read_cost(source: str | Path) -> CostFile:
    """Read a cost file (`-`: standard input). BadInput says what is wrong."""
    return parse(CostFile, read_text(source), str(source))


def write_cost(file: CostFile, target: str | Path) -> None:
    """Write a cost file (`-`: standard output)."""
    write_text(target, file.to_json())


def cost_file(
    fit: Fit, *, name: str, tick: Fraction, machine: Machine | None = None, model: str | None = None,
    device: Mapping[str, Fact] | None = None, versions: Mapping[str, str] | None = None,
    observations: Sequence[Observation] | None = None,
) -> CostFile:  # fmt: skip
    """Return the file of a fit at a tick of `tick` seconds."""
    rounded = fit.rounded(tick)
    return CostFile(
        name=name, tick_seconds=tick, cost=rounded.cost, machine=machine, model=model,
        device=None if device is None else dict(device), versions=dict(versions or {}),
        rounding_error=float(rounded.error), fit=fit.report,
        observations=None if observations is None else tuple(observations),
    )  # fmt: skip

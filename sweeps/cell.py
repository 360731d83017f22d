"""A cell of the grid: one policy, solver or bound on one instance."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kvcore.contradiction import Contradiction
from kvcore.errors import BadInput, MissingTool
from kvcore.files import printable
from kvcore.instance import Instance
from kvcore.result import Result
from solvers.source import code_version

CellRow = dict[str, Any]
"""A row of the interface (`Result.to_json`), with `label`, `run`, `kind` and, without a result, `error`."""
Stop = Literal["declined", "crashed", "time limit", "memory limit", "contradiction"]


@dataclass(frozen=True)
class Cell:
    """What is run on which instance, and its limits.

    `options` are those of `solvers.solve`, `solvers.simulate_policy` or `solvers.dual_bound.best_bound`. The process
    ends after `limit` seconds, or above `memory_limit` MiB. `problem` says why there is no instance.
    """

    label: str
    name: str
    instance: Instance | None
    objective: str
    handling: str
    kind: Literal["policy", "solver", "bound"]
    run: str
    options: dict[str, Any] = field(default_factory=dict)
    limit: float = 600.0
    memory_limit: int = 4000
    problem: str = ""

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that decides the result: the instance, what is run, the options, and the code."""
        what = {
            "instance": self.name if self.instance is None else self.instance.sha256,
            "problem": self.problem, "objective": self.objective, "handling": self.handling,
            "kind": self.kind, "policy": self.run if self.kind == "policy" else None,
            "options": self.options, "source": self._source(), "code": code_version(),
        }  # fmt: skip
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def _source(self) -> str | None:
        file = Path(self.run.partition(".py")[0] + ".py")
        named = self.kind == "policy" and ".py" in self.run and file.is_file()
        return hashlib.sha256(file.read_bytes()).hexdigest() if named else None

    def row(self, result: CellRow) -> CellRow:
        """Return the row of a result, with the cell's columns."""
        return {"label": self.label, "kind": self.kind, "run": self.run, "handling_mode": self.handling,
                "options": self.options, **result}  # fmt: skip

    def failure(self, why: str, stopped: Stop) -> CellRow:
        """Return the row of a cell without a result: all keys, with the reason in `error`."""
        empty: CellRow = {"instance": self.name, "instance_sha256": None, "objective": self.objective,
                          "status": "unknown", "value": None, "bound": None, "gap": None, "seconds": None}  # fmt: skip
        if self.instance is not None:
            policy = self.run if self.kind == "policy" else None
            empty = Result(self.instance, self.objective, policy=policy).to_json()
        return self.row({**empty, "stopped": stopped, "error": printable(" ".join(why.split()))[:500]})


def run_cell(cell: Cell) -> CellRow:
    """Run a cell and return its row, with any error in it; values are the referee's."""
    try:
        return cell.row(_result(cell).to_json())
    except (BadInput, MissingTool) as error:
        return cell.failure(str(error), "declined")
    except Contradiction as error:
        return cell.failure(str(error), "contradiction")
    except MemoryError:
        return cell.failure("it ran out of memory", "memory limit")
    except Exception as error:  # a mistake in a policy or in kvbound is a failed cell, not the end of the sweep
        return cell.failure(f"{type(error).__name__}: {error}", "crashed")


def _result(cell: Cell) -> Result:
    from solvers import free_calls, simulate_policy, solve
    from solvers.dual_bound import best_bound

    if cell.instance is None:
        raise BadInput(cell.problem)
    if cell.kind == "policy":
        return simulate_policy(cell.instance, cell.run, cell.objective, handling=cell.handling, **cell.options)
    if cell.kind == "bound":
        return best_bound(free_calls(cell.instance, cell.handling), cell.objective, **cell.options)
    return solve(cell.instance, cell.objective, handling=cell.handling, **cell.options)

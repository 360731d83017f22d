"""No verdict here depends on how fast the machine is."""

import math

import pytest

from solvers.dual_bound import best_bound
from solvers.exact import exact


@pytest.fixture(autouse=True)
def no_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of verdicts stand still, and searches for optima and certificates go on to their end."""

    def unlimited(*arguments, time_limit):
        return exact(*arguments)

    for module in ("hypotheses.case", "hypotheses.verdict"):
        monkeypatch.setattr(f"{module}.now", lambda: 0.0)
    for module in ("hypotheses.case", "hypotheses.search.ratio"):
        monkeypatch.setattr(f"{module}.exact", unlimited)
    forever = {"time_limit": math.inf}
    monkeypatch.setattr("hypotheses.search.ratio.best_bound", lambda *of, **told: best_bound(*of, **told | forever))

"""No verdict here depends on how fast the machine is."""

from types import SimpleNamespace

import pytest

from solvers.search import search


@pytest.fixture(autouse=True)
def no_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of verdicts stand still, and searches for optima go on to their end."""

    def unlimited(*arguments, time_limit, **options):
        return search(*arguments, **options)

    for module in ("hypotheses.case", "hypotheses.verdict"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: 0.0))
    for module in ("hypotheses.case", "hypotheses.search.ratio"):
        monkeypatch.setattr(f"{module}.search", unlimited)

"""A solve whose messages a test sends itself."""

from solvers.choice import Choice
from solvers.driver import _Solve
from solvers.incumbent import Held, Incumbent
from solvers.messages import Limits, SolveJob
from solvers.ways import Way


def solving(job: SolveJob, *, named: bool = True, lanes: tuple[tuple[Way, ...], ...] = (), **limits: float) -> _Solve:
    """Return the solve of a job before its opening; `limits` are fields of `Limits`."""
    held = Held(Incumbent(job.instance, job.objective), Limits(**limits), named)
    return _Solve(job, Choice(lanes, "as the test says", named), held)

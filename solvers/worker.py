"""The worker process, `python -m solvers.worker`: one job in, messages out (the parent: `solvers.pool`)."""

import contextlib
import math
import os
import pickle
import sys
import time
from dataclasses import replace
from functools import partial

from bounds.clock import SECOND, limited
from kvcore.errors import BadInput, MissingTool
from kvcore.result import Stop
from solvers.messages import NEWS, Done, Failed, Send, SolveJob, SolveOptions
from solvers.option_names import holding
from solvers.process import listen, to_parent
from solvers.ways import way_of


def main() -> None:
    """Read a job from standard input, carry it out, and send its messages; then read values found elsewhere."""
    send = to_parent()
    job: SolveJob = pickle.load(sys.stdin.buffer)
    listen(partial(setattr, NEWS, "value"))
    way = way_of(job)
    if job.constraints:
        way = replace(way, run="solvers.constrained:run")
    try:
        with holding(job.options), limited(math.inf, job.time_limit * SECOND if job.counted else None):
            _limit_cpu(job)
            send(way.runner()(_with_horizon(job, send), send))
    except BadInput as error:
        send(Failed(str(error), "bad input"))
    except MissingTool as error:
        send(Failed(str(error), "missing tool"))
    except ImportError as error:
        send(Failed(str(way.solver.missing(error)), "missing tool"))
    except MemoryError:
        send(Done(Stop.MEMORY_LIMIT))
    sys.stderr.flush()
    os._exit(0)  # solver libraries may hang or complain while they are unloaded


def _limit_cpu(job: SolveJob) -> None:
    """Let the kernel end the process where neither it nor its parent does."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits on this system
        if job.counted:
            return
        import resource

        seconds = int(time.process_time() + job.threads * job.time_limit + SolveOptions.given().grace) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _with_horizon(job: SolveJob, send: Send) -> SolveJob:
    if job.batches is not None or job.upper_bound is None or way_of(job).horizon:
        return job
    if job.constraints:  # a policy's schedule says nothing of them
        return job
    from formulations.horizon import sufficient_batches

    horizon = sufficient_batches(job.instance, job.objective, job.upper_bound)
    send(horizon)
    return replace(job, batches=horizon.batches)


if __name__ == "__main__":
    main()

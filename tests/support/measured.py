"""Worker processes under coverage, which keeps nothing of one that is killed."""

import time
from contextlib import suppress

from solvers.process import Process

kill = Process.kill


def end_measured(process: Process, seconds: float = 5) -> None:
    """End a worker as it ends when its parent is gone; kill it if it still runs after some seconds."""
    process.go_on()
    with suppress(OSError):
        process.to.close()
    ends = time.monotonic() + seconds
    while not process.has_ended() and time.monotonic() < ends:
        time.sleep(0.01)
    kill(process)

"""A worker process: its end in the parent, and what the process itself does first.

Objects go through pipes as pickles. A process of its own gives hard limits on time and memory, survives code that
crashes, and keeps apart libraries that cannot be loaded together. It ends as soon as its parent is gone, even if that
was killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil

START = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_module({module!r}, run_name='__main__')"
ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, what ends a job, and what a terminal that is closed sends."""


class Process:
    """A process that runs `python -m MODULE`.

    It finds modules where this one does, but in the current folder last: a folder there may be called `solvers`.
    """

    def __init__(self, module: str, threads: int = 1) -> None:
        here = int(sys.path[0] in ("", os.getcwd()))
        path = sys.path[here:] + sys.path[:here]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START.format(path=path, module=module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
            start_new_session=True,  # Ctrl-C reaches the parent only, which then decides
        )
        assert self.process.stdin is not None  # for mypy: it is a pipe, and so is the other
        assert self.process.stdout is not None
        self.to, self.back = self.process.stdin, self.process.stdout

    def send(self, what: object) -> None:
        """Send an object (OSError: the process has ended)."""
        pickle.dump(what, self.to)
        self.to.flush()

    def receive(self) -> Any:
        """Wait for an object (EOFError or pickle.UnpicklingError: the process has ended)."""
        return pickle.load(self.back)

    def memory_mib(self) -> float:
        """Return its resident memory."""
        with contextlib.suppress(psutil.Error):
            return float(psutil.Process(self.process.pid).memory_info().rss) / 2**20
        return 0.0

    def seconds(self) -> float:
        """Return the processor time that it has used."""
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self.process.pid).cpu_times()
            return float(used.user + used.system)
        return 0.0

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def rest(self) -> None:
        """Stop it until `go_on`."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()

    def death(self) -> tuple[int, str]:
        """Return how a process that has ended by itself did: its exit code, and the same in words."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        return code, f"its process ended with code {code}: {lines[-1] if lines else 'it left no message'}"


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until the end of the block: what begins in it is not left half done."""
    if threading.current_thread() is not threading.main_thread():  # only there Python takes signals
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDINGS}
    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for first in came[:1]:
            signal.raise_signal(first)


def to_parent() -> Callable[[object], None]:
    """Return what sends an object to the parent; whatever is printed from now on goes to standard error.

    Ctrl-C, SIGTERM and SIGHUP, which a scheduler such as Slurm sends to all processes of a job, are left to the parent.
    """
    if sys.platform == "linux":  # else one that rests would outlive a parent that is killed
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)

    def send(what: object) -> None:
        pickle.dump(what, channel)
        channel.flush()

    return send


def listen(take: Callable[[Any], None]) -> None:
    """Take in what the parent sends, in a thread of its own, and end the process at once when the parent is gone."""

    def receive() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                take(pickle.load(sys.stdin.buffer))
        os._exit(1)

    threading.Thread(target=receive, daemon=True).start()

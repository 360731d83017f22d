"""A worker process: its end in the parent, and its own start.

A process of its own has hard limits on time and memory, survives crashes, and keeps apart libraries that cannot be
loaded together. It ends with its parent. On Linux it is a copy of the *loader*, which has the common imports: a start
takes milliseconds in place of most of a second.
"""

import contextlib
import ctypes
import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import IO, Any, NoReturn

import psutil

START = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_module({module!r}, run_name='__main__')"
LOADED = ["numba", "solvers.dual_bound", "solvers.improve", "bounds.configurations", "bounds.events", "bounds.speed"]
"""The loader's imports: neither highspy nor ortools, which cannot be loaded together."""
LOAD = "import sys; sys.path[:] = {path!r}; from solvers.process import load; load({names!r})"
ASKING = threading.Lock()
ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, the end of a job, and the end of a terminal."""


class Process:
    """A process that runs `python -m MODULE`."""

    def __init__(self, module: str, threads: int = 1) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        code, pipe = START.format(path=_path(), module=module), subprocess.PIPE
        environment = {**os.environ, **_threads(threads)}
        self.process: Copy | subprocess.Popen[bytes]
        try:
            self.process = Copy(code, environment, self.errors)
        except (OSError, ValueError):  # there is no loader
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", code], stdin=pipe, stdout=pipe, stderr=self.errors, env=environment,
                start_new_session=True,  # Ctrl-C reaches the parent only, which then decides
            )  # fmt: skip
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
        """Return its processor time."""
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
        """Return its exit code, if it has ended by itself, and that in words."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        return code, f"its process ended with code {code}: {lines[-1] if lines else 'it left no message'}"


def _path() -> list[str]:
    here = int(sys.path[0] in ("", os.getcwd()))
    return sys.path[here:] + sys.path[:here]


@cache
def _loader(of: int, executable: str) -> tuple[socket.socket, object]:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    command, nothing = [executable, "-P", "-c", LOAD.format(path=_path(), names=LOADED)], subprocess.DEVNULL
    with theirs:
        return ours, subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=nothing, stderr=nothing, env={**os.environ, **_threads(1)},
            start_new_session=True,
        )  # fmt: skip


def _threads(number: int) -> dict[str, str]:
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(number))


def prepare() -> None:
    """Start the loader, if there is none, without waiting for it."""
    with ASKING, contextlib.suppress(OSError):
        _loader(os.getpid(), sys.executable)


class Copy:
    """What is used of `subprocess.Popen`: a copy of the loader that runs some code (OSError: no loader)."""

    def __init__(self, code: str, environment: dict[str, str], errors: IO[bytes]) -> None:
        with ASKING:  # two threads would start two loaders
            loader, _ = _loader(os.getpid(), sys.executable)
        (their_in, our_in), (our_out, their_out), (self.ended, their_end) = os.pipe(), os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(our_in, "wb"), os.fdopen(our_out, "rb")
        self.returncode: int | None = None
        try:
            with ASKING:
                socket.send_fds(loader, [b"copy"], [their_in, their_out, errors.fileno(), their_end])
                self.pid = int(loader.recv(20))  # ValueError: it has ended
        finally:
            for end in (their_in, their_out, their_end):
                os.close(end)
        with contextlib.suppress(BrokenPipeError):
            pickle.dump((code, environment, os.getcwd()), self.stdin)
            self.stdin.flush()

    def poll(self) -> int | None:
        """Return its exit code (None: it runs)."""
        os.set_blocking(self.ended, False)
        with contextlib.suppress(BlockingIOError):
            return self.wait()
        os.set_blocking(self.ended, True)
        return None

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        if self.returncode is None:  # no code: the loader is gone, and its copies with it
            self.returncode = int(os.read(self.ended, 20) or -signal.SIGKILL)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            os.close(self.ended)


def load(names: Sequence[str]) -> NoReturn:
    """Be the loader: import modules, make copies when asked, and tell how each ended."""
    for name in names:
        import_module(name)
    gc.freeze()
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    asking, copies, parent = socket.socket(fileno=0), dict[int, tuple[int, int]](), os.getppid()
    while os.getppid() == parent:
        ready, *_ = select.select([0, *copies], [], [], 1.0)
        for handle in copies.keys() & ready:
            number, ended = copies.pop(handle)
            with contextlib.suppress(OSError):  # nobody waits for it
                os.write(ended, b"%d" % os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
            os.close(ended)
            os.close(handle)
        if 0 in ready:
            asked, ends, *_ = socket.recv_fds(asking, 20, 4)
            if not asked:
                break
            if not (number := os.fork()):
                _become(ends)
            asking.send(b"%d" % number)
            copies[os.pidfd_open(number)] = number, ends.pop()
            for end in ends:
                os.close(end)
    os._exit(0)


def _become(ends: Sequence[int]) -> NoReturn:
    try:
        os.setsid()
        for number, end in enumerate(ends[:3]):
            os.dup2(end, number)
        os.closerange(3, 1024)
        code, environment, folder = pickle.load(sys.stdin.buffer)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        exec(code, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP until the end of the block."""
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
    """Return a function that sends an object to the parent; prints go to standard error from now on.

    Ctrl-C, SIGTERM and SIGHUP are left to the parent.
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
    """Receive from the parent in a thread of its own; end the process at once when the parent is gone."""

    def receive() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                take(pickle.load(sys.stdin.buffer))
        os._exit(1)

    threading.Thread(target=receive, daemon=True).start()

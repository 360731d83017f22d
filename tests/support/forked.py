"""Worker processes that are copies of one which has imported what every worker imports: a start takes no second.

This module stands for `subprocess` in `solvers.process`. `make test-all` starts every worker anew, and so do
tests that are marked `processes`.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from functools import cache
from typing import IO, Any, NoReturn

PIPE, EXECUTABLE, PATH, ENVIRONMENT = subprocess.PIPE, sys.executable, list(sys.path), dict(os.environ)
ASKING = threading.Lock()
IMPORTED = ("solvers", "bounds", "pyomo.environ")
"""What a worker imports before it solves; neither highspy nor ortools, which cannot be loaded together."""


def Popen(command: Sequence[str], **how: Any) -> Copy | subprocess.Popen[bytes]:  # noqa: N802 - its name there
    """Start a copy; where another program stands in for Python, that."""
    return Copy(command, **how) if command[0] == EXECUTABLE else subprocess.Popen(command, **how)


class Copy:
    """What is used of `subprocess.Popen`: a copy that runs the code of `python -P -c CODE`."""

    def __init__(
        self, command: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes], env: dict[str, str],
        start_new_session: bool,
    ) -> None:  # fmt: skip
        assert list(command[1:-1]) == ["-P", "-c"]
        assert (stdin, stdout, start_new_session) == (PIPE, PIPE, True)
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.status, theirs_status = os.pipe()
        self.returncode: int | None = None
        self.stdin, self.stdout = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        asked = json.dumps({"code": command[-1], "env": env, "folder": os.getcwd()}).encode()
        theirs = [theirs_in, theirs_out, stderr.fileno(), theirs_status]
        with ASKING:
            original = _original()
            socket.send_fds(original, [struct.pack("i", len(asked))], theirs)
            original.sendall(asked)
            (self.pid,) = struct.unpack("i", original.recv(4, socket.MSG_WAITALL))
        for end in (theirs_in, theirs_out, theirs_status):
            os.close(end)

    def poll(self) -> int | None:
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        ended = select.select([self.status], [], [], timeout)[0]
        with ASKING:
            if self.returncode is None and ended:
                told = os.read(self.status, 4)  # nothing: the original is gone, and its copies with it
                self.returncode = struct.unpack("i", told)[0] if told else -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.status)


@cache
def _original() -> socket.socket:
    """Start the process that is copied; it ends when this one does."""
    ours, theirs = socket.socketpair()
    code = f"import sys; sys.path[:] = {PATH!r}; import {__name__} as forked; forked.serve({theirs.fileno()})"
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    original = subprocess.Popen(
        [EXECUTABLE, "-P", "-c", code], pass_fds=(theirs.fileno(),), env=ENVIRONMENT | threads,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    theirs.close()
    atexit.register(original.wait)
    atexit.register(ours.close)  # before the other
    return ours


def serve(socket_number: int) -> None:
    """Make a copy whenever one is asked for, and tell how each ended."""
    for name in IMPORTED:
        importlib.import_module(name)
    asking, ends = socket.socket(fileno=socket_number), {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([asking, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1024)
        for pid, status in list(ends.items()):
            ended, how = os.waitpid(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(BrokenPipeError):
                    os.write(status, struct.pack("i", os.waitstatus_to_exitcode(how)))
                os.close(ends.pop(pid))
        if asking in ready:
            size, theirs, _, _ = socket.recv_fds(asking, 4, 4)
            if not size:
                return
            asked = json.loads(asking.recv(struct.unpack("i", size)[0], socket.MSG_WAITALL))
            if not (pid := os.fork()):
                _run(asked, theirs)
            ends[pid] = theirs.pop()
            for end in theirs:
                os.close(end)
            asking.sendall(struct.pack("i", pid))


def _run(asked: dict[str, Any], ends: list[int]) -> NoReturn:
    """Be the process that was asked for."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, end in enumerate(ends[:3]):
            os.dup2(end, number)
        os.closerange(3, 1024)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["env"])
        exec(asked["code"], {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

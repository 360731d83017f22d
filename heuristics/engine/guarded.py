"""Runs a user's code: ends it when it takes too long, and keeps it from ending the process."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from kvcore.errors import in_one_line

SECONDS = 20.0  # code of a user's that takes longer than this, over a decision up to twice that, is ended
_exit = os._exit


@contextmanager
def alarmed(look: Callable[..., None]) -> Iterator[None]:
    """Call `look`, which may raise, every `SECONDS`; in the main thread only, and where the system has alarms."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def guarded(file: str, error: Callable[[str], Exception]) -> Iterator[None]:
    """Raise `error` of one line where the code of `file` raises anything, exits or takes too long."""
    try:
        with alarmed(lambda *_: too_long("ended")), without_exit():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        raise error(in_one_line(raised, file)) from raised


def too_long(done: str) -> NoReturn:
    """Raise TimeoutError: not `done` in time."""
    raise TimeoutError(f"it has not {done} within {SECONDS:g} s")


@contextmanager
def without_exit() -> Iterator[None]:
    """Raise SystemExit where `os._exit` is called in this process; a forked one may end."""
    process = os.getpid()

    def end(code: int) -> NoReturn:
        if os.getpid() != process:
            _exit(code)
        raise SystemExit(code)

    before = os._exit
    vars(os)["_exit"] = end
    try:
        yield
    finally:
        vars(os)["_exit"] = before

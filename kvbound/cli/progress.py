"""Progress displays: on a terminal, once something takes longer than a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from kvbound.cli.common import progress_console
from kvcore.files import printable
from kvcore.metrics import Value


class LiveLine:
    """A context manager that shows one line, after the first second."""

    def __init__(self) -> None:
        self.console = progress_console()
        self.status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def show(self, text: str, seconds: float) -> None:
        """Show a text, `seconds` after the start."""
        if self.console is None or seconds < 1:
            return
        shown = Text(printable(text))
        if self.status is None:
            self.status = Status(shown, console=self.console)
            self.status.start()
        self.status.update(shown)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.stop()


class SolveProgress(LiveLine):
    """A context manager that a solve calls with what it knows."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def __call__(self, value: Value | None, bound: Value | None, seconds: float) -> None:
        """Show the state of the solve."""
        known = f"{self.what}: best {_show(value)}, bound {_show(bound)}"
        self.show(f"{known}, {seconds:.0f} s (Ctrl-C keeps what is found)", seconds)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is being done; on a terminal, once it takes longer than a second."""
    console = progress_console()
    if console is None:
        yield
        return
    status = Status(Text(printable(f"{what} ..")), console=console)
    timer = Timer(1, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _show(value: Value | None) -> str:
    return "none yet" if value is None else str(value)

"""Progress displays: on a terminal, once a command takes longer than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Any, Self

from rich.status import Status
from rich.text import Text

from kvbound import instances
from kvbound.cli import STARTED
from kvbound.cli.common import progress_console
from kvcore.files import printable
from kvcore.instance import Instance
from kvcore.metrics import Value


class LiveLine:
    """A context manager with a line of progress, after the command's first second."""

    def __init__(self, what: str) -> None:
        self.what, self.started = what, time.perf_counter()
        console = progress_console()
        self.status = None if console is None else Status(Text(printable(f"{what} ..")), console=console)

    def __enter__(self) -> Self:
        if self.status is not None:
            self.timer = Timer(max(0.0, STARTED + 1 - time.perf_counter()), self.status.start)
            self.timer.start()
        return self

    def show(self, text: str) -> None:
        """Show another text."""
        if self.status is not None:
            self.status.update(Text(printable(text)))

    def part(self, done: int, total: int) -> None:
        """Show the part done, and the time left at that speed."""
        passed = time.perf_counter() - self.started
        left = f", about {passed / done * (total - done):.0f} s left" if done else ""
        self.show(f"{self.what}: {done} of {total}{left} (Ctrl-C ends it)")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.timer.cancel()
            self.timer.join()
            self.status.stop()


def drawing(draw: Callable[[str], object]) -> Callable[[str], None]:
    """Return a function that draws into a file and says so meanwhile."""

    def write(file: str) -> None:
        with LiveLine(f"drawing {file}"):
            draw(file)

    return write


def load_instance(source: str) -> Instance:
    """Return an instance by name or file (`kvbound.instances`)."""
    with LiveLine(f"reading {source}"):
        return instances.load_instance(source)


class SolveProgress(LiveLine):
    """A line of progress for a solve; `write` makes text of a value."""

    def __init__(self, what: str, write: Callable[[Value], str] = str) -> None:
        super().__init__(what)
        self.write = write

    def __call__(self, value: Value | None, bound: Value | None, seconds: float) -> None:
        """Show the state."""
        known = f"{self.what}: best {self._text(value)}, bound {self._text(bound)}"
        self.show(f"{known}, {seconds:.0f} s (Ctrl-C keeps what is found)")

    def _text(self, value: Value | None) -> str:
        return "none yet" if value is None else self.write(value)


@contextmanager
def counted(what: str, done: int, total: int) -> Iterator[Callable[[], Any]]:
    """Show how many things are done and the time left; gives what to call for each.

    Without a terminal it only says how many there are to do.
    """
    console = progress_console()
    if console is None:
        if total - done > 1:
            print(f"{what}: {total - done} of {total} to do ..", file=sys.stderr)
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (what, BarColumn(), MofNCompleteColumn(), "took", TimeElapsedColumn(), "left", TimeRemainingColumn())
    with Progress(*columns, console=console, speed_estimate_period=600) as shown:
        task = shown.add_task(what, total=total, completed=done)
        yield lambda: shown.advance(task)

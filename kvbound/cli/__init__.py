"""The command line. `docs/commands.md` documents its names, exit codes and JSON; scripts rely on them."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

PACKAGES = (
    "kvbound", "library", "sweeps", "hypotheses", "gpu_validation", "solvers", "bounds", "formulations", "heuristics",
    "workloads", "costmodels", "kvcore",
)  # fmt: skip

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_UNDECIDED, EXIT_MISSING_TOOL, EXIT_INTERRUPTED = 1, 2, 3, 4, 130
STARTED = time.perf_counter()  # when the command began, but for the start of Python itself
HEARD: list[int] = []  # the signals that have come to end the command; 0 is `only_writes`
WAITS: list[str] = []  # a command that answers the first signal only once it has begun: see `heard`
NOTED = 6  # the most files that a note names
COLLECTED = 1_000_000  # objects made between two collections: with Python's 700 they take a third of a long run
LONGEST = 880  # letters of an error; of a longer one the middle is left out


def main() -> None:
    """Run the command line; an error is one line on standard error and an exit code.

    SIGTERM and SIGHUP end a command as Ctrl-C does: what was found is written. Only the first signal counts (timeout
    sends two), none after `only_writes`. nohup is obeyed.
    """
    _keep_streams()
    gc.set_threshold(COLLECTED)
    try:
        with _endings_as_ctrl_c():
            code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _complain("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has seen enough
        code = 0
    except OSError as error:
        where = error.filename or ("standard output" if error.errno else "the system")
        code = _complain(f"{where}: {error.strerror or error}", EXIT_BAD_INPUT)
    try:
        sys.stdout.flush()
    except OSError:  # what is left in it goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def print_version() -> None:
    """Print the version, without loading what takes long."""
    text = (Path(__file__).parents[2] / "kvcore" / "__init__.py").read_text(encoding="utf-8")
    print(f"kvbound {text.partition('__version__ = ')[2].split()[0][1:-1]}")


def _keep_streams() -> None:
    """Take the places of closed streams, lest a file gets one, and let the others take every letter."""
    for name, flag in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flag), "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what is in files is UTF-8, and no letter is an error
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def hidden() -> str | None:
    """Return what is wrong if docstrings are left out, or another package stands ahead of ours."""
    if sys.flags.optimize > 1:
        return "policies say their rule and source in docstrings: leave out -OO, or PYTHONOPTIMIZE"
    ours = Path(__file__).parents[2]
    for name in PACKAGES:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).parent
        if found is None or not found.samefile(ours / name):
            return (
                f"the package {name} is taken from {found}, not from {ours}: start elsewhere, or take it off PYTHONPATH"
            )
    return None


def only_writes() -> None:
    """Say that the command only writes its result: no signal shall come between."""
    if 0 not in HEARD:
        HEARD.append(0)


def heard() -> None:
    """Let a signal end a command that waited until here: one that has come does so now."""
    if WAITS:
        WAITS.clear()
        if HEARD:
            raise KeyboardInterrupt


@contextmanager
def _endings_as_ctrl_c() -> Iterator[None]:
    def interrupt(number: int, _: object) -> None:
        late = HEARD == [0] if number == signal.SIGINT else bool(HEARD)
        HEARD.append(number)
        if WAITS and len(HEARD) == 1:
            return
        if late:
            if number == signal.SIGINT:
                with suppress(OSError):
                    os.write(2, b"kvbound: writing what was found; Ctrl-C once more leaves out the rest\n")
            return
        for stream in terminals:
            if not os.isatty(stream):  # it was closed: what is said goes nowhere, and is no error
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        raise KeyboardInterrupt

    def again(lost: sys.UnraisableHookArgs) -> None:
        if HEARD and lost.exc_type is KeyboardInterrupt:  # it came in a callback, from which nothing is raised
            threading.Timer(0.01, _send, [HEARD.pop()]).start()
        else:
            unraisable(lost)

    if threading.current_thread() is not threading.main_thread():  # only there Python takes signals
        yield
        return
    HEARD.clear()
    WAITS[:] = [command for command in sys.argv[1:2] if command == "solve"]
    unraisable, terminals = sys.unraisablehook, [stream for stream in (1, 2) if os.isatty(stream)]
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {each: signal.getsignal(each) for each in numbers if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, interrupt)
        sys.unraisablehook = again
        yield
    finally:
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _send(number: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:
        print_version()
        return 0
    if (wrong := hidden()) is not None:
        print(f"kvbound: {wrong}", file=sys.stderr)
        return EXIT_MISSING_TOOL
    from concurrent.futures import BrokenExecutor

    from typer.exceptions import TyperException

    from kvbound.cli.app import app
    from kvcore.contradiction import Contradiction
    from kvcore.errors import BadInput, MissingTool
    from kvcore.files import WRITTEN

    if "_KVBOUND_COMPLETE" in os.environ or sys.argv[1:2] in (["--install-completion"], ["--show-completion"]):
        app()  # which ends the process
    WRITTEN.clear()
    try:
        code = app(standalone_mode=False) or 0
        _note_files([name for name in WRITTEN if not os.path.basename(name).startswith(".")])  # others are moved
        return code
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # no command was given: its message is the help
            print(error)
            return 0
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        return _complain(
            said.replace("Input should be", "it must be").partition(", unable to parse")[0], EXIT_BAD_INPUT
        )
    except BadInput as error:
        return _complain(str(error), EXIT_BAD_INPUT)
    except BrokenExecutor:
        return _complain("one of its processes was killed, perhaps for want of memory: try --jobs 1", EXIT_BAD_INPUT)
    except MissingTool as error:
        return _complain(str(error), EXIT_MISSING_TOOL)
    except Contradiction as error:
        return _complain(str(error), EXIT_FAILED)
    except (RecursionError, MemoryError) as error:
        what = "something is nested too deeply" if isinstance(error, RecursionError) else "there is too little memory"
        return _complain(what, EXIT_BAD_INPUT)
    except SystemExit as error:  # of a file of the user's, or of a pipe that Click saw closed
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        return _complain(f"what it ran ended by itself, with {error.code!r}; nothing was done", EXIT_BAD_INPUT)


def _note_files(written: list[str]) -> None:
    from kvcore.files import printable

    if written and "-" not in written:
        more = f" and {len(written) - NOTED} more" if len(written) > NOTED else ""
        print(printable(f"written: {', '.join(written[:NOTED])}{more}"))


def _complain(message: str, code: int) -> int:
    from kvcore.files import printable

    line = " ".join(message.split())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} .. {line[-LONGEST // 2 :]}"
    with suppress(OSError):
        print(f"kvbound: {printable(line)}", file=sys.stderr)
    return code

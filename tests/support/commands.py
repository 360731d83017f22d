"""Runs a command line in this process."""

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import NamedTuple
from unittest import mock

import pytest

from kvbound.cli import main


class Done(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


def kvbound(*arguments: object, code: int = 0) -> Done:
    """Run `kvbound ARGUMENTS`, which must exit with `code`."""
    out, err = io.StringIO(), io.StringIO()
    ended = run(list(map(str, arguments)), out, err)
    assert ended == code, err.getvalue()
    return Done(out.getvalue(), err.getvalue())


def one_line(*arguments: object, code: int = 2) -> str:
    """Return the one line with which `kvbound ARGUMENTS` says why it exits with `code`."""
    line = kvbound(*arguments, code=code).stderr
    assert line.count("\n") == 1, line
    return line


def run_kvbound(arguments: Sequence[str]) -> tuple[int, str]:
    """Run `kvbound ARGUMENTS`; return its exit code and what it printed, errors included."""
    printed = io.StringIO()
    with mock.patch.object(sys, "stdin", io.StringIO()):
        return run(arguments, printed, printed), printed.getvalue()


def run(arguments: Sequence[str], out: io.StringIO, err: io.StringIO) -> int:
    """Run `kvbound ARGUMENTS` with these streams; return its exit code."""
    with (
        mock.patch.object(sys, "argv", ["kvbound", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code

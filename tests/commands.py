"""Runs a command line in this process."""

from __future__ import annotations

import contextlib
import io
import sys
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
    argv = ["kvbound", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", argv),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == code, err.getvalue()
    return Done(out.getvalue(), err.getvalue())

"""What holds for every test: Ctrl-C is heard, and workers are copies of one that has imported what they need."""

import signal
import subprocess
import sys

import pytest

from tests.support import forked
from tests.support.few import ALL

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job; some tests send it to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if process := sys.modules.get("solvers.process"):
        anew = ALL or sys.platform != "linux" or item.get_closest_marker("processes") is not None
        process.subprocess = subprocess if anew else forked

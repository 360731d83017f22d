"""What holds for every test: Ctrl-C is heard, what workers are copies of has imported Pyomo, too, turns are taken."""

import os
import signal

import pytest

from solvers import process
from tests.support.few import TURNS, has_its_turn
from tests.support.measured import end_measured

process.LOADED.append("pyomo.environ")
if "COVERAGE_PROCESS_CONFIG" in os.environ:
    process.Process.kill = end_measured  # type: ignore[method-assign]
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job; some tests send it to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose turn it is not (`KVBOUND_TURNS`), and say how many."""
    if TURNS:
        others = [item for item in items if not has_its_turn(item.nodeid)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if has_its_turn(item.nodeid)]

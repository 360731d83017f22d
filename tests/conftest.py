"""What holds for every test: Ctrl-C is heard, and what workers are copies of has imported Pyomo, too."""

import os
import signal

from solvers import process
from tests.support.measured import end_measured

process.LOADED.append("pyomo.environ")
if "COVERAGE_PROCESS_CONFIG" in os.environ:
    process.Process.kill = end_measured  # type: ignore[method-assign]
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job; some tests send it to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

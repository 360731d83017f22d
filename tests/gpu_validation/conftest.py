"""The kernels run in Triton's interpreter here; Triton reads this when it decorates them, so it is set before."""

import os
from importlib.util import find_spec

os.environ["TRITON_INTERPRET"] = "1"

NEED_TRITON = ("attention", "backend_errors", "bench", "compile", "kernel_mutants", "operations", "truth")
collect_ignore = [] if find_spec("triton") else [f"test_{name}.py" for name in NEED_TRITON]
"""Triton has no wheels but for Linux."""
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
"""`make test` installs no PyTorch; `make test-engine` does."""

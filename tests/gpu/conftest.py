"""The kernels run in Triton's interpreter here; Triton reads this when it decorates them, so it is set before."""

import os

os.environ["TRITON_INTERPRET"] = "1"

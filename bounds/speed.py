"""Prices of work over time: from the best order of one machine that may interrupt, then step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bounds.speed_kernels import Shape, Work, pay
from bounds.task import Proposal, Task
from kvcore.certificates.budget import Budget
from kvcore.certificates.one_machine import Piece, run
from kvcore.certificates.shares import UNIT
from kvcore.certificates.speed import ONE, PricedWork, Speed
from kvcore.certificates.steps import lines
from kvcore.errors import BadInput
from kvcore.instance import Instance, alike
from kvcore.metrics import SUMS, weight

Floats = npt.NDArray[np.float64]

SHARED = (0, 256, 512, 717, 870, 1024)
"""Parts of the fixed time of a batch that memory shares, tried in turn."""
INFLATED = (1.0, 1.15, 1.35)
"""So many times its work a request keeps the machine busy, tried in turn."""
RATIOS = (66, 70, 77, 86, 102, 128, 192, 320, 640)
SLOTS = 500
SCALE = 2**24

"""Requests that call web services, with the moments that LAMPS (Table 2) and MARS (Table 1) give for ToolBench.

They give no lengths. Contexts and the tokens between calls are those of the closest type of InferCept, `qa`: questions
to a service over the network.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import count

from kvcore.instance import Request
from workloads.generators.calls import CallType
from workloads.generators.draws import Moments
from workloads.generators.infercept import TYPES

QA = TYPES["qa"]
TOOLBENCH = CallType(Moments(1.72, 3.33), Moments(2.45, 1.81), QA.context, QA.decode, QA.returns)


def toolbench(draw: random.Random, tick: Fraction, n: int | None) -> Iterator[Request]:
    """Yield requests without end."""
    for number in count(1):
        yield TOOLBENCH.request(f"toolbench-{number}", draw, tick)

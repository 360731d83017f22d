"""What `--better-than` asks for: a value, or a share below a policy's."""

from __future__ import annotations

import re
from fractions import Fraction

from heuristics import get_policy, run_policy
from kvcore import BadInput, Instance, objective_value, verify_schedule
from kvcore.metrics import Value
from solvers.driver import free_calls


def target_of(text: str, instance: Instance, objective: str, handling: str) -> Value:
    """Return the largest value that answers `--better-than` with yes.

    `VALUE` asks for strictly less; `P%:POLICY` for at least P per cent less than the policy's value.
    """
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%:(\S+)", text)
    if match is not None:
        share = 1 - Fraction(match[1]) / 100
        if share < 0:
            raise BadInput(f"--better-than {text}: no schedule is more than 100 % better")
        freed = free_calls(instance, handling)
        value = objective_value(verify_schedule(freed, run_policy(freed, get_policy(match[2]))), objective)
        return value * share
    if re.fullmatch(r"\d{1,30}", text):
        return Fraction(2 * int(text) - 1, 2) if objective != "normalized-latency" else Fraction(int(text))
    raise BadInput(f"--better-than {text}: write a whole number of ticks, or P%:POLICY such as 10%:fcfs")

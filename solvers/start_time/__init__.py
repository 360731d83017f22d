"""Exact start times of requests that run from start to end (`docs/start_time.md`); `solve.py` is where to begin."""

from kvcore.rigid import why_not_rigid

__all__ = ["why_not_rigid"]

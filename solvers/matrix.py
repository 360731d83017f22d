"""A Pyomo model as arrays for all solvers, by Pyomo's standard-form compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

Array = Any
"""A numpy array of floats, one entry per row or column."""


class MatrixModel:
    """Minimise c x + offset subject to row_lower <= A x <= row_upper, lower <= x <= upper, some x integer.

    `A` is a scipy CSR matrix; all else are numpy vectors.
    """

    def __init__(self, model: pyo.ConcreteModel) -> None:
        form = LinearStandardFormCompiler().write(model, mixed_form=True)
        self.columns = list(form.columns)
        self.c = np.asarray(form.c.todense(), dtype=float).ravel()
        self.offset = float(form.c_offset[0])
        self.A = form.A.tocsr()
        rhs = np.asarray(form.rhs, dtype=float)
        kind = np.array([row.bound_type for row in form.rows], dtype=int)
        self.row_lower = np.where(kind <= 0, rhs, -np.inf)
        self.row_upper = np.where(kind >= 0, rhs, np.inf)
        self.lower = np.array([-np.inf if column.lb is None else column.lb for column in self.columns], dtype=float)
        self.upper = np.array([np.inf if column.ub is None else column.ub for column in self.columns], dtype=float)
        self.integer = np.array([not column.is_continuous() for column in self.columns], dtype=bool)

    def start(self) -> Array | None:
        """Return the values of the Pyomo variables (None: one has none)."""
        values = [column.value for column in self.columns]
        return None if any(value is None for value in values) else np.array(values, dtype=float)

    def value(self, x: Array) -> float:
        """Return the cost of a solution."""
        return float(self.c @ x) + self.offset

    def load(self, x: Array) -> None:
        """Put a solution into the Pyomo variables; integer ones are rounded."""
        for column, value, integer in zip(self.columns, x, self.integer, strict=True):
            column.set_value(round(float(value)) if integer else float(value), skip_validation=True)

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows, columns and nonzeros."""
        return (*self.A.shape, self.A.nnz)

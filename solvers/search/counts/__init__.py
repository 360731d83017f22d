"""Exact search over counts of like requests: busy-time and makespan, batches of linear cost, no calls."""

from solvers.search.counts.model import CountsModel, count_model
from solvers.search.counts.run import CountSearch
from solvers.search.counts.vectors import Vectors, fitting_vectors

__all__ = ["CountSearch", "CountsModel", "Vectors", "count_model", "fitting_vectors"]

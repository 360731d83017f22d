"""Sweeps: a grid of instances, policies and solvers from a study file, run cell by cell into a database."""

from studies.cell import Cell, run_cell
from studies.grid import cells_of
from studies.store import Store
from studies.study import Study, read_study

__all__ = ["Cell", "Store", "Study", "cells_of", "read_study", "run_cell"]

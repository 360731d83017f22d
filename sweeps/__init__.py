"""Sweeps: a grid of instances, policies and solvers from a study file, run cell by cell into a database."""

from sweeps.cell import Cell, run_cell
from sweeps.grid import cells_of
from sweeps.run import Sweep, sweep
from sweeps.store import Store
from sweeps.study import Study, read_study

__all__ = ["Cell", "Store", "Study", "Sweep", "cells_of", "read_study", "run_cell", "sweep"]

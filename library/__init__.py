"""Instances of the field, each with the best schedule and the best certified bound handed in."""

from library.library import Checked, Improved, Library
from library.record import Best, Origin, Record

__all__ = ["Best", "Checked", "Improved", "Library", "Origin", "Record"]

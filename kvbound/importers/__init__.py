"""Traces of real requests as instances: one file for each source; `docs/data.md` describes their formats."""

from kvbound.importers.azure import read_azure
from kvbound.importers.infercept import infercept_slice, read_infercept

__all__ = ["infercept_slice", "read_azure", "read_infercept"]

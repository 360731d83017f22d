"""One self-contained HTML file about policies and optima on an instance (`docs/report.md`)."""

from kvbound.report.page import Report

__all__ = ["Report"]

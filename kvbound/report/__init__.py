"""One self-contained HTML file about an instance's policies and optima (`docs/report.md`)."""

from kvbound.report.page import Report

__all__ = ["Report"]

"""A small engine with real paged attention: it executes schedules, and tests the cost model.

torch is loaded when an engine is made.
"""

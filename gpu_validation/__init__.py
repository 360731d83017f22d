"""A small engine with real paged attention: it executes schedules, and says whether the cost model tells the truth.

Nothing of torch is loaded before an engine is made.
"""

"""A small engine with real paged attention that executes schedules and tests the cost model."""

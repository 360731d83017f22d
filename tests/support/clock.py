"""A clock for tests of time limits: nothing depends on how fast the machine is."""

from itertools import count


class Clock:
    """Stands in for the module `time`: each look at it is a second later."""

    def __init__(self) -> None:
        self.monotonic = self.process_time = count().__next__

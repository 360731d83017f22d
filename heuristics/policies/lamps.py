"""LAMPS: MARS as its earlier paper has it."""

from __future__ import annotations

from heuristics.policies.mars import Mars


class Lamps(Mars):
    """MARS as its earlier paper has it: scores refreshed every ten batches, and no starvation before the first run.

    LAMPS caches the scores and refreshes them at intervals (ten on ToolBench), and its starvation prevention works
    only for requests that were scheduled once. All else is as in `Mars`.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(r log r) where memory lacks.
    Source: LAMPS (arXiv 2410.18248v2), Sections 4.3, 4.4 and 5.
    """

    name = "lamps"
    rule = "as mars; scores refreshed every 10 batches, and only requests that have run before can be starving"
    source = "LAMPS (arXiv 2410.18248, earlier version), Sections 4.3 to 5"
    new_may_starve = False

    def __init__(self, refresh: int = 10, threshold: int = 100) -> None:
        super().__init__(refresh, threshold)

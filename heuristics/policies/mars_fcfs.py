"""MARS without its order."""

from __future__ import annotations

from heuristics.policies.mars import Mars


class MarsFcfs(Mars):
    """MARS without its scheduling: calls are handled as predicted, and requests served in order of arrival.

    A request keeps its place through its calls; the last comer is evicted.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: MARS (arXiv 2410.18248), Section 4, breakdown of components ("MARS w/o scheduling", Figure 6).
    """

    name = "mars-fcfs"
    rule = "order of arrival, kept through calls; calls as predicted to waste least when their segment begins"
    source = "MARS (arXiv 2410.18248), Section 4 and Figure 6: MARS w/o scheduling"
    ranked = False

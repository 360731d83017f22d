"""AugServe with two of its formulas as they are printed."""

from __future__ import annotations

from heuristics.policies.augserve import AugServe


class AugServeAsPrinted(AugServe):
    """AugServe with (6) and (26) as they are printed.

    By (26) the smallest value plus `alpha` times the ticks waited goes first: what waits falls back behind those that
    come later, the opposite of what the paper says of it. By (6) a swap wastes N tokens for its time, so that nearly
    all calls swap, more than the link carries.

    Guarantee: nothing is known. Running time: as `AugServe`. Source: AugServe (arXiv 2512.04013), Algorithm 1.
    """

    name = "augserve-as-printed"
    rule = "as augserve, but waiting adds to the value, and a swap is taken to waste N tokens for its time"
    as_printed = True

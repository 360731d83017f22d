"""Orders of fresh work, one function of the cost after another, with ever more labels."""

from __future__ import annotations

from collections.abc import Iterator

from bounds.task import Proposal, Task
from kvcore.certificates.fresh import MOST_LABELS, Fresh, FreshSearch, check_size

FIRST, GROWTH = 1000, 4
"""Labels after which there is a first proof, and how many times more there are until the next."""


def propose_fresh(task: Task) -> Iterator[Proposal]:
    """Return the proofs of searches that go on while the time allows; the first is always made.

    Raises InvalidCertificate where there is no hope.
    """
    check_size(task.instance, task.objective)
    return _proofs(task)


def _proofs(task: Task) -> Iterator[Proposal]:
    searches = {
        k: FreshSearch(task.instance, task.objective, k, MOST_LABELS, task.upper)
        for k, function in enumerate(task.instance.cost.functions)
        if function.tokens or function.busy or k == 0
    }
    labels = FIRST
    while searches:
        for k, search in [*searches.items()]:
            look = search.run(labels, task.is_over if labels > FIRST else lambda: False)
            yield Proposal(Fresh(function=k, labels=look.labels, target=search.target), look.bound)
            if task.is_over():
                return
            if look.is_over or labels == MOST_LABELS:
                del searches[k]
        labels = min(labels * GROWTH, MOST_LABELS)

"""The search over batch boundaries in a worker process: it leaves a certificate, and a schedule where it ends."""

from __future__ import annotations

import time

from kvcore import __version__
from kvcore.certificates import Events, InvalidCertificate, certify
from kvcore.certificates.events import MOST_STATES, EventSearch
from kvcore.errors import BadInput
from solvers.task import NEWS, Bound, Done, Found, Send, Task

FIRST, GROWTH = 10_000, 4
"""States after which there is a first bound, and how many times more there are until the next."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task; bounds with their certificates are sent as they come, and the schedule at the end."""
    deadline = time.monotonic() + task.time_limit
    try:
        search = EventSearch(task.instance, task.objective, MOST_STATES, task.upper_bound)
    except InvalidCertificate as error:
        raise BadInput(f"events: {error}") from None
    states, best = FIRST, None
    while True:
        found = search.run(states, lambda: time.monotonic() > deadline)
        if best is None or found.bound > best:
            best = found.bound
            proof = Events(states=found.states, target=search.target)
            certificate = certify(task.instance, task.objective, proof, found.bound)
            send(Bound(certificate.value, "certificate", certificate))
        if found.schedule is not None:
            send(Found(found.schedule, None))
        if found.is_over or (NEWS.value is not None and best >= NEWS.value):
            return Done("proved", __version__)
        if time.monotonic() > deadline:
            return Done("time limit", __version__)
        if states == MOST_STATES:
            return Done("memory limit", __version__)
        states = min(states * GROWTH, MOST_STATES)

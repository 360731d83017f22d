"""Closed loops: users who ask again when their last answer has come."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import Call, Request, Segment


def closed_loop(requests: Iterable[Request], users: int, think: int = 0) -> Iterator[Request]:
    """Yield a request for each user, to whom these are dealt in turn, from tick 0.

    A free call of `think` ticks returns each next prompt. BadInput: fewer requests than users, an SLO, or contents.
    """
    dealt = list(requests)
    if len(dealt) < users:
        raise BadInput(f"--closed-loop is from 1 to {len(dealt)} users, the number of requests, not {users}")
    if any(request.slo or request.path for request in dealt):
        raise BadInput(
            "--closed-loop: an SLO or contents of a request have no place in a user's session; leave them out"
        )
    for user in range(users):
        yield _session(f"u{user + 1}", dealt[user::users], think)


def _session(id: str, requests: list[Request], think: int) -> Request:
    limits = [request.max_new for request in requests]
    segments = list[Segment]()
    for request, following in pairwise([*requests, None]):
        assert request is not None  # for mypy: only the last is None
        *before, last = request.segments
        call = None if following is None else Call(duration=think, returns=following.prompt)
        segments += [*before, last.replace(call=call)]
    with valid(f"user {id}"):
        return requests[0].replace(
            id=id, arrival=0, segments=tuple(segments), max_new=None if None in limits else max(filter(None, limits))
        )

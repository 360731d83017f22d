"""Writes an instance file of any number of requests without holding them, and counts sizes."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvcore.files import writing
from kvcore.instance import Instance, Request


@dataclass
class Sizes:
    """Total tokens, and ticks in calls, of the requests."""

    requests: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    decode_tokens: int = 0
    returned_tokens: int = 0
    call_ticks: int = 0
    largest_peak: int = 0
    sum_of_peaks: int = 0

    def add(self, request: Request) -> None:
        """Count one more request."""
        self.requests += 1
        self.calls += len(request.calls)
        self.prompt_tokens += request.prompt
        self.decode_tokens += request.output
        self.returned_tokens += sum(call.returns for call in request.calls)
        self.call_ticks += request.call_time
        self.largest_peak = max(self.largest_peak, request.peak)
        self.sum_of_peaks += request.peak


def sizes_of(instance: Instance) -> Sizes:
    """Return the sizes of an instance."""
    sizes = Sizes()
    for request in instance.requests:
        sizes.add(request)
    return sizes


def write_instance(target: str | Path, head: Instance, requests: Iterable[Request]) -> tuple[str, Sizes]:
    """Write the file of `head` with these requests in place of its own; return hash and sizes.

    Both are those of `head.replace(requests=tuple(requests))`, except that the requests' fit and ids are not checked.
    """
    sizes, digest = Sizes(), hashlib.sha256()
    before, after = _around(head, indent=1, sort_keys=False, separators=(",", ": "))
    start, end = _around(head, indent=None, sort_keys=True, separators=(",", ":"))
    digest.update(start.encode())
    with writing(target) as file:
        file.write(before)
        for separator, request in zip(_separators(), requests, strict=False):
            sizes.add(request)
            digest.update(f"{separator}{_canonical(request)}".encode())
            file.write(f"{separator}\n  " + request.model_dump_json(indent=1).replace("\n", "\n  "))
        file.write(f"\n {after}\n")
    digest.update(end.encode())
    return digest.hexdigest(), sizes


def _separators() -> Iterator[str]:
    yield ""
    while True:
        yield ","


def _around(head: Instance, indent: int | None, sort_keys: bool, separators: tuple[str, str]) -> tuple[str, str]:
    document = head.model_dump(mode="json", exclude={"requests"}) | {"requests": []}
    ordered = {name: document[name] for name in Instance.model_fields if name in document}
    text = json.dumps(
        ordered, indent=indent, sort_keys=sort_keys, separators=separators, ensure_ascii=indent is None
    )  # fmt: skip
    before, after = text.split('"requests"' + separators[1] + "[]")  # no quote in a text stands without a backslash
    return f'{before}"requests"{separators[1]}[', f"]{after}"


def _canonical(request: Request) -> str:
    return json.dumps(request.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

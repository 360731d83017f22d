"""Which requests of a trace are taken, how fast they come, and the service-level objectives put on them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction

from kvcore.csv_table import check_take, slo_in_ticks
from kvcore.errors import BadInput
from kvcore.instance import Slo
from kvcore.parameters import NUMBER, fraction

ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(\.\d{1,18})?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = {"since": "from", "slo_latency": "slo-latency", "slo_ttft": "slo-ttft", "slo_tpot": "slo-tpot"}


@dataclass(frozen=True)
class Selection:
    """What is taken of a trace, in this order; times are seconds.

    The requests that arrive from `since` to just before `until` (seconds after the first arrival, or a time such as
    `2023-11-16 18:20`); of these, in order of arrival, all after the first `skip`; the first `take` of them; `sample`
    of those, drawn without replacement by `random.Random(seed)`. They then come `load` times as fast. Every one gets
    the objectives `slo_latency`, `slo_ttft` and `slo_tpot` (seconds, of which whole ticks count but for `slo_tpot`).
    """

    since: str | None = None
    until: str | None = None
    skip: int = 0
    take: int | None = None
    sample: int | None = None
    seed: int = 0
    load: Fraction = Fraction(1)
    slo_latency: Fraction | None = None
    slo_ttft: Fraction | None = None
    slo_tpot: Fraction | None = None

    def __post_init__(self) -> None:
        if self.skip < 0:
            raise BadInput(f"--skip is at least 0, not {self.skip}")
        if self.load <= 0:
            raise BadInput(f"--load is a number above 0, not {self.load}")

    @property
    def words(self) -> str:
        """What was asked for, to be put after a name: `,option=value` for each."""
        usual = asdict(Selection(seed=0 if self.sample is None else -1))
        shown = {NAMES.get(name, name): value for name, value in asdict(self).items() if value != usual[name]}
        return "".join(f",{name}={value}" for name, value in shown.items())

    def pick(self, times: Sequence[Fraction]) -> list[int]:
        """Return the places of what is taken of requests that arrive at these `times`, in order of arrival.

        Raises:
            BadInput: nothing is left, or fewer than are to be taken.
        """
        kept = sorted(range(len(times)), key=times.__getitem__)
        first, last = times[kept[0]], times[kept[-1]]
        if self.since is not None:
            begin = _moment("--from", self.since, first)
            kept = [k for k in kept if times[k] >= begin]
        if self.until is not None:
            end = _moment("--until", self.until, first)
            kept = [k for k in kept if times[k] < end]
        kept = kept[self.skip :]
        if not kept:
            raise BadInput(
                f"no request is left after --from, --until and --skip: the trace has {len(times)}, "
                f"and the last arrives {float(last - first):g} s after the first"
            )
        kept = kept[: check_take(self.take, len(kept), "requests that are left")]
        count = check_take(self.sample, len(kept), "requests that are left", "--sample (--take)")
        if self.sample is not None:
            kept = [kept[k] for k in sorted(random.Random(self.seed).sample(range(len(kept)), count))]
        return kept

    def slo(self, tick: Fraction) -> Slo | None:
        """Return the objectives in ticks (None: there is none)."""
        return slo_in_ticks(tick, latency=self.slo_latency, ttft=self.slo_ttft, tpot=self.slo_tpot)


def iso_seconds(text: str) -> Fraction | None:
    """Return the exact seconds since 1970 of a date, or a date and a time of day (UTC unless it has an offset).

    None if it does not look like one; ValueError if it does, and there is no such day or time.
    """
    match = ISO.fullmatch(text)
    if match is None:
        return None
    offset = "+00:00" if match[4] in (None, "UTC") else match[4]
    since = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{offset}") - EPOCH
    return 86400 * since.days + since.seconds + Fraction(match[3] or 0)


def _moment(option: str, text: str, first: Fraction) -> Fraction:
    """Return the time that was given as a time of day, or as seconds after the first arrival."""
    try:
        at = iso_seconds(text)
    except ValueError as error:
        raise BadInput(f"{option} {text}: {error}") from None
    if at is None and not NUMBER.fullmatch(text):
        raise BadInput(f"{option} {text}: write seconds, such as 90, or a time such as 2023-11-16 18:20")
    return first + fraction(option, text, zero=True) if at is None else at

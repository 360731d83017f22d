"""Reads `name:key=value,key=value`, and exact numbers, as a user types them."""

import re
from collections.abc import Collection
from fractions import Fraction

from kvcore.errors import BadInput, did_you_mean

NUMBER = re.compile(r"([0-9]{1,15}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?|[0-9]{1,15}/[0-9]{1,15}")
"""Short enough to read fast."""
SECONDS = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "min": Fraction(60),
    "h": Fraction(3600),
}
TIMED = re.compile(r"([0-9.]{1,20}) ?(s|ms|us|min|h)")
_WHOLE = re.compile(r"(\w+)=(\d{1,9})")
_ANY = re.compile(r"(\w+)=([\w./+-]{1,40})")


def read_parameters(source: str, known: Collection[str], usage: str, *, whole: bool) -> dict[str, str]:
    """Return the values after the colon by key, as text (`whole`: of whole numbers).

    BadInput for an unknown key or an odd value.
    """
    _, _, text = source.partition(":")
    values = {}
    for part in text.split(",") if text else []:
        match = (_WHOLE if whole else _ANY).fullmatch(part.strip())
        if match is None or match[1] not in known:
            what = "no parameter with a whole number" if whole else "no parameter"
            key = part.partition("=")[0].strip()
            near = "" if key in known else did_you_mean(key, known)
            raise BadInput(f"{source}: {part!r} is {what}{near}; write {usage}")
        if match[1] in values:
            raise BadInput(f"{source}: {match[1]} is given twice")
        values[match[1]] = match[2]
    return values


def fraction(option: str, text: str, *, zero: bool = False) -> Fraction:
    """Read a number above 0 (`zero`: or 0): whole, decimal or fraction."""
    try:
        value = Fraction(text) if NUMBER.fullmatch(text) else None
    except ZeroDivisionError:
        value = None
    if (match := TIMED.fullmatch(text)) and NUMBER.fullmatch(match[1]):
        seconds = float(Fraction(match[1]) * SECONDS[match[2]])
        raise BadInput(f"{option} {text}: write a number without a unit; in seconds it is {seconds:g}")
    if value is None or (value == 0 and not zero):
        raise BadInput(
            f"{option} {text}: write a number {'of at least' if zero else 'above'} 0, such as 2, 0.5 or 1/40"
        )
    return value


def optional_fraction(option: str, text: str | None) -> Fraction | None:
    """Read a positive number or None."""
    return None if text is None else fraction(option, text)

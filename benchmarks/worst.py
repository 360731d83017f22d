"""`python -m benchmarks.worst`: write docs/worst.md, every ratio of `worst-POLICY-OBJECTIVE:n=N` computed anew."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment

from heuristics import get_policy
from hypotheses.search import Claim, Optima, SearchSpace, judge, search
from kvcore.files import write_text
from workloads.builtin import WORST_OBJECTIVES, WORST_POLICIES, WORST_SIZES, builtin_instance

PAGE = Path(__file__).parents[1] / "docs" / "worst.md"
TEMPLATE = Path(__file__).with_name("worst.md.jinja")
Row = list[str]


def family(n: int) -> SearchSpace:
    """Return the family of the table: everything small, memory that few requests share, a call each at most."""
    return SearchSpace(requests=n, memory=8, prompt=4, decode=6, calls=1, duration=6, returns=1, arrival=4)


def small_family(n: int) -> SearchSpace:
    """Return a family that can be listed whole."""
    return SearchSpace(requests=n, memory=4, prompt=2, decode=3, calls=0, arrival=1)


def rows() -> Iterator[Row]:
    """Yield the rows of the table of what ships."""
    for objective in WORST_OBJECTIVES:
        for policy in WORST_POLICIES:
            instances = [builtin_instance(f"worst-{policy}-{objective}:n={n}") for n in WORST_SIZES]
            claims = [judge(instance, get_policy(policy), Optima(objective)).certified() for instance in instances]
            yield _row(policy, objective, claims)


def whole_rows(n: int) -> Iterator[Row]:
    """Yield the rows of the worst ratios of the whole small family."""
    for objective in WORST_OBJECTIVES:
        optima = Optima(objective)
        for policy in WORST_POLICIES:
            seen = search(small_family(n), policy, objective, optima=optima)
            assert n in seen.complete, f"{policy} on {objective}: {seen.failed} failed, {seen.undecided} undecided"
            yield _row(policy, objective, [seen.claim])


def _row(policy: str, objective: str, claims: Sequence[Claim | None]) -> Row:
    return [policy, objective, *(str(claim.ratio) if claim else "-" for claim in claims)]


def page() -> str:
    """Return the page about both tables."""
    template = Environment(trim_blocks=True, keep_trailing_newline=True).from_string(TEMPLATE.read_text("utf-8"))
    return template.render(whole=whole_rows(3), found=rows())


if __name__ == "__main__":
    write_text(PAGE, page())

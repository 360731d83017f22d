"""A cost model fitted to measured batches: non-negative least squares on relative errors.

    found = fit([Observation(features, seconds, "decode"), ...], shape="auto", transfers="overlapped")
    found.report          errors of each shape, fitted and held out
    found.rounded(tick)   the integer cost, with its rounding error

Batches that do both, move KV and work, are held out. Shapes of the work: `docs/costmodels.md`; of `max` each sum is
fitted to the batches that it is the longest for. `auto` takes the least mean error held out, the simpler if equal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodels.least_squares import Floats, columns, errors, fit_function, longest_of, split, table_of
from costmodels.rounding import Function, Rounded, longest, rounded
from costmodels.transfers import IN, OUT, Transfers, fit_transfers, joined
from kvcore.cost import Features
from kvcore.cost_file import Errors, FitReport, Observation, ShapeFit
from kvcore.errors import BadInput, unknown

__all__ = ["Errors", "Fit", "FitReport", "Observation", "Shape", "fit"]
Shape = Literal["auto", "linear", "hinge", "max"]
WORK = tuple(name for name in Features._fields if name not in (*OUT, *IN))
TOKENS = Features._fields.index("tokens")
KNEES = 24  # knees tried in each round of the search for the best
ROUNDS = 40  # most alternations of the fit of a maximum


@dataclass(frozen=True)
class Fit:
    """Functions in seconds, and the report of their errors."""

    functions: tuple[Function, ...]
    report: FitReport

    def predict(self, features: Features) -> float:
        """Return the seconds of a batch, before any rounding."""
        return float(longest(self.functions, features))

    def rounded(self, tick: Fraction) -> Rounded:
        """Return the integer cost at a tick, with its rounding error."""
        return rounded(self.functions, tick)


class _Kinds(NamedTuple):
    work: list[Observation]
    moves: list[Observation]
    mixed: list[Observation]


def fit(
    observations: Sequence[Observation], *, shape: Shape = "auto", transfers: Transfers = "overlapped",
    names: Sequence[str] = WORK, held_out: float = 0.2, seed: int = 0,
) -> Fit:  # fmt: skip
    """Fit a cost model to measured batches (see the module).

    Work may depend on the features `names`; `held_out` is the share of each label that is not fitted to. BadInput if
    there is too little to fit to.
    """
    _check(shape, names, held_out)
    train, held = (_by_kind(part) for part in split(observations, held_out, seed))
    if len(train.work) < 2:
        raise BadInput(f"a fit needs at least 2 batches that process tokens; {len(train.work)} are left to fit to")
    works = {name: make(names, *table_of(train.work)) for name, make in SHAPES.items()}
    shapes = {name: _candidate(work, train.work, held.work) for name, work in works.items()}
    chosen = _best(shapes) if shape == "auto" else shape
    moves = fit_transfers(train.moves) if train.moves else ()
    functions = joined(works[chosen], moves, transfers)
    mixed = train.mixed + held.mixed
    unseen = held.work + held.moves + mixed
    labels = dict.fromkeys(observation.label for observation in unseen)
    by_label = {label: _errors(functions, [o for o in unseen if o.label == label]) for label in labels}
    report = FitReport(
        shape=chosen, transfers=transfers, seed=seed, share_held_out=held_out, shapes=shapes,
        moves=_candidate(moves, train.moves, held.moves) if train.moves else None,
        mixed=_errors(functions, mixed), held_out=_errors(functions, unseen),
        by_label={label: found for label, found in by_label.items() if found is not None},
    )  # fmt: skip
    return Fit(functions, report)


def _check(shape: str, names: Sequence[str], held_out: float) -> None:
    if shape not in ("auto", *SHAPES):
        raise unknown("shape of a fit", shape, ["auto", *SHAPES])
    for name in names:
        if name not in WORK:
            raise BadInput(f"the time of work cannot depend on {name!r}; features are {', '.join(WORK)}")
    if not 0 <= held_out < 1:
        raise BadInput(f"the share held out is from 0 to below 1, not {held_out}")


def _by_kind(observations: Sequence[Observation]) -> _Kinds:
    kinds = _Kinds([], [], [])
    for observation in observations:
        features = observation.features
        moved = any(getattr(features, name) for name in (*OUT, *IN))
        kind = kinds.work if not moved else kinds.mixed if features.tokens else kinds.moves
        kind.append(observation)
    return kinds


def _linear(names: Sequence[str], features: Floats, seconds: Floats) -> tuple[Function, ...]:
    return (fit_function(names, features, seconds),)


def _hinge(names: Sequence[str], features: Floats, seconds: Floats) -> tuple[Function, ...]:
    """The knee is sought among quantiles of the tokens, then between the best's neighbours."""
    tokens = features[:, TOKENS]
    tried: dict[int, tuple[float, Function]] = {}

    def attempt(knees: NDArray[np.int64]) -> tuple[int, int]:
        for knee in {int(knee) for knee in knees} - tried.keys():
            function = fit_function(names, features, seconds, knee)
            tried[knee] = (_loss((function,), features, seconds), function)
        best = min(tried, key=lambda knee: (tried[knee][0], knee))
        below, above = (k for k in tried if k < best), (k for k in tried if k > best)
        return max(below, default=best), min(above, default=best)

    low, high = attempt(np.quantile(tokens, np.linspace(0, 0.97, KNEES)).astype(np.int64))
    for _ in range(2):
        low, high = attempt(np.linspace(low, high, KNEES).astype(np.int64))
    return (min(tried.values(), key=lambda found: found[0])[1],)


def _maximum(names: Sequence[str], features: Floats, seconds: Floats) -> tuple[Function, ...]:
    starts = [
        column > cut for column in columns(names, features, None).T
        for cut in np.unique(np.quantile(column, np.linspace(0, 0.9, 7)))
    ]  # fmt: skip
    found = [_linear(names, features, seconds)]
    found += [_alternate(names, features, seconds, start) for start in starts if start.any() and not start.all()]
    return min(found, key=lambda functions: _loss(functions, features, seconds))


def _alternate(
    names: Sequence[str], features: Floats, seconds: Floats, second: NDArray[np.bool_]
) -> tuple[Function, ...]:
    best: tuple[float, tuple[Function, ...]] | None = None
    for _ in range(ROUNDS):
        sides = [~second, second]
        functions = tuple(fit_function(names, features[side], seconds[side]) for side in sides)
        loss = _loss(functions, features, seconds)
        if best is None or loss < best[0]:
            best = (loss, functions)
        again = longest_of(functions[1:], features) > longest_of(functions[:1], features)
        if (again == second).all() or again.all() or not again.any():
            break
        second = again
    assert best is not None  # there is at least one round
    return best[1]


SHAPES: dict[str, Callable[[Sequence[str], Floats, Floats], tuple[Function, ...]]] = {
    "linear": _linear, "hinge": _hinge, "max": _maximum,
}  # fmt: skip


def _loss(functions: Sequence[Function], features: Floats, seconds: Floats) -> float:
    return float(((longest_of(functions, features) / seconds - 1) ** 2).sum())


def _errors(functions: Sequence[Function], observations: Sequence[Observation]) -> Errors | None:
    features, seconds = table_of(observations)
    return errors(longest_of(functions, features), seconds)


def _candidate(functions: Sequence[Function], train: Sequence[Observation], held: Sequence[Observation]) -> ShapeFit:
    fitted = _errors(functions, train)
    assert fitted is not None  # there is something to fit to
    knees = tuple(function.knee for function in functions if "tokens_above" in function.seconds)
    return ShapeFit(fitted=fitted, held_out=_errors(functions, held), knees=knees)


def _best(shapes: dict[str, ShapeFit]) -> Literal["linear", "hinge", "max"]:
    return min(("linear", "hinge", "max"), key=lambda shape: (shapes[shape].held_out or shapes[shape].fitted).mean)

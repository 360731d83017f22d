"""Fits recover what made the numbers, within the error that they state, and state the error that there is."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from costmodels import DEVICES, MODELS
from costmodels.fitted import WORK, Observation, fit
from costmodels.least_squares import errors, fit_function, predict, split, table_of
from costmodels.roofline import roofline_functions
from costmodels.rounding import longest
from costmodels.transfers import fit_transfers
from kvcore import BadInput
from kvcore.cost import Features

MOVES = {"out": ("swap_out_tokens", "swap_outs"), "in": ("swap_in_tokens", "swap_ins")}
ROOF = roofline_functions(MODELS["llama-3.2-1b"], replace(DEVICES["h200"], bandwidth=4300 * 10**9, flops=790 * 10**12))[
    :2
]


def decode(n):
    return Features(busy=1, any_decode=1, tokens=n, generated=n, decode_requests=n)


def bent(n):
    """Return weights hiding 184 tokens of compute, 60 us of launches, and half a microsecond of head a token."""
    return max(0.575e-3, 0.575e-3 * n / 184) + 0.5e-6 * n + 60e-6


def sizes(count):
    return sorted({round(4096 ** (k / (count - 1))) for k in range(count)})


BENT = [Observation(decode(n), bent(n), "decode") for n in sizes(150)]


def a_batch(draw):
    kind = draw.choice(["decode", "prefill", "mixed"])
    decodes = draw.choice([1, 2, 8, 32, 64, 128, 256]) if kind != "prefill" else 0
    kv = sum(draw.randint(1, 8192) for _ in range(decodes))
    chunks = [(draw.choice([16, 64, 256, 512, 2048]), draw.choice([0, 0, 512, 4096]))
              for _ in range(draw.randint(1, 3) if kind != "decode" else 0)]  # fmt: skip
    return Features(
        busy=1, any_decode=int(decodes > 0), any_prefill=int(bool(chunks)), tokens=decodes + sum(c for c, _ in chunks),
        generated=decodes + len(chunks), decode_requests=decodes, prefill_requests=len(chunks), decode_kv=kv,
        prefill_kv=sum(m for _, m in chunks), prefill_pairs=sum(c * c + 2 * c * m for c, m in chunks),
    ), kind  # fmt: skip


def batches(count, noise, seconds, seed=3):
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        features, kind = a_batch(draw)
        made.append(Observation(features, seconds(features) * (1 + draw.gauss(0, noise)), kind))
    return made


def roof(features):
    return float(longest(ROOF, features))


def swaps(way, count, token, move):
    draw = random.Random(f"{way} {count}")
    made = []
    for _ in range(count):
        tokens, moves = draw.randint(1, 20_000), draw.randint(1, 4)
        features = Features()._replace(**dict(zip(MOVES[way], (tokens, moves), strict=True)))
        made.append(Observation(features, token * tokens + move * moves, way))
    return made


# --- the work --------------------------------------------------------------------------------------------------------
def test_a_line_cannot_do_what_a_hinge_and_a_maximum_can():
    """The shape of a forward pass: 13 % off on average for a line, a tenth of a percent for a hinge."""
    shapes = fit(BENT).report.shapes
    assert 0.10 < shapes["linear"].fitted.mean < 0.16
    assert shapes["linear"].held_out.mean > 0.10
    for shape in ("hinge", "max"):
        assert shapes[shape].fitted.mean < 0.002
        assert shapes[shape].held_out.mean < 0.002
        assert shapes[shape].held_out.worst < 0.01
    (knee,) = shapes["hinge"].knees
    assert 170 <= knee <= 200


def test_the_hinge_recovers_the_coefficients():
    found = fit(BENT, shape="hinge", names=("busy", "tokens"))
    (function,) = found.functions
    assert float(function.seconds["busy"]) == pytest.approx(0.635e-3, rel=0.005)
    assert float(function.seconds["tokens"]) == pytest.approx(0.5e-6, rel=0.05)
    assert float(function.seconds["tokens_above"]) == pytest.approx(0.575e-3 / 184, rel=0.01)
    assert found.report.shape == "hinge"
    assert abs(function.knee - 184) <= 1


def test_a_maximum_recovers_a_noisy_roofline():
    """Two percent of noise: the error held out is that noise, and against the truth it is a fraction of it."""
    found = fit(batches(900, 0.02, roof))
    assert found.report.shape == "max"
    assert found.report.held_out.mean < 0.02
    assert abs(found.report.held_out.bias) < 0.005
    assert found.report.held_out.r2 > 0.998
    assert found.report.shapes["linear"].held_out.mean > 4 * found.report.held_out.mean
    fresh = batches(200, 0, roof, seed=77)
    off = [abs(found.predict(one.features) / one.seconds - 1) for one in fresh]
    assert sum(off) / len(off) < 0.005
    assert max(off) < 0.03


def test_a_bend_in_another_feature_than_tokens_is_found():
    """All batches have 64 tokens; reading KV exceeds a millisecond of weights from 500,000 tokens of it on."""
    measured = [
        Observation(Features(busy=1, tokens=64, decode_requests=64, decode_kv=kv), max(1e-3, 2e-9 * kv), "decode")
        for kv in range(70_000, 2_000_000, 31_337)
    ]
    shapes = fit(measured, held_out=0).report.shapes
    assert shapes["max"].fitted.worst < 1e-6
    assert shapes["hinge"].fitted.mean > 0.02


def test_the_slower_side_of_a_maximum_counts():
    found = fit(batches(300, 0, roof), shape="max")
    assert len(found.functions) == 2
    for one in batches(50, 0, roof, seed=5):
        assert found.predict(one.features) == float(max(f.value(one.features) for f in found.functions))


@pytest.mark.parametrize("seed", range(4))
def test_no_coefficient_is_negative_and_rounding_keeps_to_its_bound(seed):
    found = fit(batches(150, 0.1, roof, seed), seed=seed)
    assert all(seconds > 0 for function in found.functions for seconds in function.seconds.values())
    tick = Fraction(1, 10**9)
    made = found.rounded(tick)
    assert made.error <= Fraction(1, 10**6)
    for one in batches(30, 0, roof, seed + 50):
        exact = longest(found.functions, one.features) / tick
        assert (1 - made.error) * exact <= made.cost.duration(one.features) < (1 + made.error) * exact + 1


def test_least_squares_are_relative_and_scaled():
    """A slow batch counts no more than a fast one; columns 10^9 apart are told apart."""
    features = np.array([Features(busy=1, tokens=n, prefill_pairs=n * n) for n in sizes(60)], dtype=float)
    seconds = 1e-4 + 1e-6 * features[:, 3] + 3e-11 * features[:, 9]
    found = fit_function(["busy", "tokens", "prefill_pairs"], features, seconds)
    assert {name: float(b) for name, b in found.seconds.items()} == pytest.approx(
        {"busy": 1e-4, "tokens": 1e-6, "prefill_pairs": 3e-11}, rel=1e-6
    )
    assert predict(found, features) == pytest.approx(seconds, rel=1e-9)
    skewed = fit_function(["busy"], features, np.array([1.0] * (len(features) - 1) + [1000.0]))
    assert float(skewed.seconds["busy"]) == pytest.approx(1, abs=1e-4)  # sum of 1/t over sum of 1/t^2


def test_what_never_matters_is_left_out():
    features = np.array([Features(busy=1, tokens=n) for n in (1, 2, 4)], dtype=float)
    found = fit_function(["busy", "tokens"], features, np.array([1, 1 + 1e-9, 1 + 3e-9]))
    assert list(found.seconds) == ["busy"]


# --- transfers -------------------------------------------------------------------------------------------------------
def test_transfers_are_recovered_each_way():
    found = fit_transfers(swaps("out", 20, 7e-7, 2e-5) + swaps("in", 20, 8e-7, 3e-5))
    assert [{name: pytest.approx(float(s), rel=1e-6) for name, s in f.seconds.items()} for f in found] == [
        {"swap_out_tokens": 7e-7, "swap_outs": 2e-5}, {"swap_in_tokens": 8e-7, "swap_ins": 3e-5},
    ]  # fmt: skip


@pytest.mark.parametrize(("how", "expected"), [("overlapped", max), ("sync", lambda work, moved: work + moved)])
def test_work_and_transfers_together(how, expected):
    """Batches that do both are not fitted to, and their error says whether transfers are overlapped or added."""
    both = []
    for one in BENT[::10]:
        moves = {"swap_out_tokens": 1500, "swap_outs": 1}
        seconds = expected(one.seconds, 1500 * 7e-7 + 2e-5)
        both.append(Observation(one.features._replace(**moves), seconds, "both"))
    measured = BENT + swaps("out", 20, 7e-7, 2e-5) + both
    found = fit(measured, transfers=how)
    assert found.report.mixed.count == len(both)
    assert found.report.mixed.worst < 0.01
    assert found.report.moves.held_out.worst < 1e-6
    assert set(found.report.by_label) == {"decode", "out", "both"}
    other = fit(measured, transfers="sync" if how == "overlapped" else "overlapped")
    assert other.report.mixed.mean > 0.1
    cost = found.rounded(Fraction(1, 10**9)).cost
    assert cost.duration(both[3].features) * 1e-9 == pytest.approx(both[3].seconds, rel=0.01)


def test_a_direction_seen_only_beside_the_other_is_refused():
    both = Observation(Features(swap_out_tokens=5, swap_outs=1, swap_in_tokens=5, swap_ins=1), 1e-3)
    with pytest.raises(BadInput, match="swap_in_tokens: no batch with transfers of this direction alone"):
        fit_transfers([*swaps("out", 3, 1e-6, 0), both])
    with pytest.raises(BadInput, match="no batch that only moves KV was measured"):
        fit_transfers([])


# --- what is held out, and errors ------------------------------------------------------------------------------------
def test_each_label_is_held_out_alike_and_the_seed_decides():
    measured = [*batches(300, 0, roof), Observation(decode(1), 1.0, "once")]
    train, held = split(measured, 0.25, seed=1)
    assert len(train) + len(held) == len(measured)
    assert {id(one) for one in train}.isdisjoint(id(one) for one in held)
    for label in ("decode", "prefill", "mixed"):
        kind = [one for one in measured if one.label == label]
        assert sum(one.label == label for one in held) == round(len(kind) / 4)
    assert [one.label for one in held].count("once") == 0  # the only one of its kind is fitted to
    assert "once" not in [one.label for one in split(measured, 0.9, seed=1)[1]]
    assert split(measured, 0.25, seed=1) == (train, held)
    assert split(measured, 0.25, seed=2) != (train, held)


def test_held_out_batches_are_not_fitted_to():
    """A batch that is wrong by a factor of 1000 spoils the fit if fitted to, and only the error if held out."""
    _, held = split(BENT, 0.2, seed=0)
    spoiled = [Observation(o.features, o.seconds * (1000 if o is held[0] else 1), o.label) for o in BENT]
    found = fit(spoiled, shape="hinge")
    assert found.functions == fit(BENT, shape="hinge").functions
    assert found.report.shapes["hinge"].fitted.worst < 0.01 < 0.9 < found.report.shapes["hinge"].held_out.worst


def test_errors_are_what_they_say():
    made = errors(np.array([1.1, 1.8, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert (made.count, made.mean, made.worst, made.bias) == (
        3, pytest.approx(0.2 / 3), pytest.approx(0.1), pytest.approx(0),
    )  # fmt: skip
    assert made.p95 == pytest.approx(0.1)
    assert made.r2 == pytest.approx(1 - 0.05 / (14 / 3))
    assert errors(np.array([1.0]), np.array([2.0])).r2 is None
    assert errors(*table_of([])[1:] * 2) is None


def test_nothing_held_out_chooses_by_what_was_fitted():
    report = fit(BENT, held_out=0).report
    assert report.held_out is None
    assert report.shapes["linear"].held_out is None
    assert report.shape == "max"


@pytest.mark.parametrize(("change", "message"), [
    ({"shape": "cubic"}, "no shape of a fit is called 'cubic'; there are auto, linear, hinge, max"),
    ({"names": ["tokens", "swap_outs"]}, "cannot depend on 'swap_outs'; features are busy"),
    ({"held_out": 1}, "the share held out is from 0 to below 1, not 1"),
    ({"observations": BENT[:1]}, "needs at least 2 batches that process tokens; 1 are left"),
    ({"observations": swaps("out", 9, 1, 1)}, "needs at least 2 batches that process tokens; 0 are left"),
])  # fmt: skip
def test_what_cannot_be_fitted_is_one_line(change, message):
    with pytest.raises(BadInput, match=message):
        fit(**{"observations": BENT, **change})


def test_work_depends_on_no_transfer():
    assert set(Features._fields) - set(WORK) == {*MOVES["out"], *MOVES["in"]}

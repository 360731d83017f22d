"""What policies believe: how it is wrong, that it is seeded, and that nobody fails by it."""

from fractions import Fraction

import pytest

from heuristics import POLICIES, Unsuited, predictions, run_policy, trace_policy
from kvcore import BadInput, Machine, Segment, verify_schedule
from kvcore.metrics import completions
from solvers import simulate_policy
from tests.heuristics.test_compression import serving
from tests.support.build import instance, request
from tests.support.few import few

FOUR = instance(
    request("qa-1", 3, (10, 100, 4, "free"), (20, 300, 8, "free"), 7), request("qa-2", 3, (15, 200, 3, "free"), 10),
    request("chat-1", 3, (504, 1000, 0, "free"), 1), request("alone", 3, 29), memory=900, host_memory=50,
)  # fmt: skip


def shown(instance):
    assert instance is not None
    return {
        r.id: [(s.decode, s.call.duration if s.call else 0, s.call.returns if s.call else 0) for s in r.segments]
        for r in instance.requests
    }


def test_exact_is_none():
    assert predictions("exact", FOUR) is None


def test_types_are_means_of_the_segments_with_a_call_and_of_the_last_ones():
    # qa: decodes (10 + 20 + 15) / 3 = 15, durations 600 / 3, returns 15 / 3; last ones (7 + 10) / 2 = 8.5, to the even
    assert shown(predictions("types", FOUR)) == {
        "qa-1": [(15, 200, 5), (15, 200, 5), (8, 0, 0)], "qa-2": [(15, 200, 5), (8, 0, 0)],
        "chat-1": [(504, 1000, 0), (1, 0, 0)], "alone": [(29, 0, 0)],
    }  # fmt: skip


def test_bins_give_the_centre_and_the_last_bin_takes_the_rest():
    guessed = shown(predictions("bins:50x10", FOUR))
    # 10 and 15 lie in bin 1 (10 to 19), 20 and 29 in bin 2, 7 and 1 in bin 0; 504 is beyond the last, 490 to 499
    assert [segment[0] for segment in guessed["qa-1"]] == [15, 25, 5]
    assert guessed["qa-2"] == [(15, 200, 3), (15, 0, 0)]
    assert guessed["chat-1"] == [(495, 1000, 0), (5, 0, 0)]
    assert guessed["alone"] == [(25, 0, 0)]


def test_noise_is_seeded_in_proportion_and_cut_at_the_least():
    many = FOUR.replace(requests=tuple(request(f"r-{i}", 3, (100, 10_000, 9, "free"), 2) for i in range(400)))
    guess = shown(predictions("noise:0.3", many, seed=5))
    assert guess == shown(predictions("noise:0.3", many, seed=5)) != shown(predictions("noise:0.3", many, seed=6))
    for k, size in ((0, 100), (1, 10_000)):
        errors = [segments[0][k] - size for segments in guess.values()]
        mean = sum(errors) / 400
        deviation = (sum((error - mean) ** 2 for error in errors) / 400) ** 0.5
        assert abs(mean) < 0.06 * size  # four standard errors
        assert 0.26 * size < deviation < 0.34 * size
    assert {segments[0][2] for segments in guess.values()} == {9}
    wild = shown(predictions("noise:9", many))
    assert min(segments[0][0] for segments in wild.values()) == 1
    assert min(segments[0][1] for segments in wild.values()) == 0
    assert shown(predictions("noise:0", many)) == shown(many)


def test_a_guess_that_is_too_large_for_the_machine_is_cut():
    tight = FOUR.replace(machine=Machine(memory=600, evict=True))
    wide, guess = (predictions("noise:9", instance, seed=1) for instance in (FOUR, tight))
    assert wide is not None
    assert guess is not None
    cut = {r.id for r in wide.requests if r.peak > 600}
    assert cut
    assert all(guess.request(id).peak == 600 for id in cut)
    assert [r for r in guess.requests if r.id not in cut] == [r for r in wide.requests if r.id not in cut]
    assert set(completions(trace_policy(tight, POLICIES["mars"], guess))) == set(tight.index)


def test_a_guess_above_the_output_limit_is_cut():
    limited = FOUR.replace(
        requests=tuple(r.replace(max_new=max(s.decode for s in r.segments) + 1) for r in FOUR.requests)
    )
    wide, guess = (predictions("noise:9", of, seed=1) for of in (FOUR, limited))
    assert wide is not None
    assert guess is not None
    for one in limited.requests:
        expected = [min(s.decode, one.max_new) for s in wide.request(one.id).segments]
        assert [s.decode for s in guess.request(one.id).segments] == expected
    assert any(r.max_new in [s.decode for s in r.segments] for r in guess.requests)


def test_a_guess_may_be_longer_than_a_batch_that_is_not_split():
    whole = Machine(memory=None, chunked=False, batch_tokens=20, prefill_tokens=20)
    given = FOUR.replace(machine=whole, requests=(request("r", 3, (9, 1, 2, "discard"), 4),))
    guess = predictions("bins:1x90", given)
    assert guess is not None
    assert guess.requests[0].peak > 20
    assert completions(trace_policy(given, POLICIES["sjf"], guess)) == completions(trace_policy(given, POLICIES["sjf"]))


@pytest.mark.parametrize(
    "text", ["", "noise", "noise:", "noise:-1", "noise:1e9", "noise:x", "bins:50", "bins:0x10", "bins:5x0", "Exact"]
)
def test_what_is_no_prediction_is_refused(text):
    with pytest.raises(BadInput, match=f"predictions are exact, noise:P, types or bins:NxW, not '{text}'"):
        predictions(text, FOUR)


def test_simulate_takes_them():
    exact, noisy, again = (
        simulate_policy(FOUR.with_free_calls(), "sjf", predictions=text, seed=2).schedule
        for text in ("exact", "noise:3", "noise:3")
    )
    assert noisy == again
    assert exact != noisy
    with pytest.raises(BadInput, match="predictions are"):
        simulate_policy(FOUR, "sjf", predictions="none")


ORDERING = ("sjf", "sjf-api", "mars-order", "mars", "lamps", "augserve", "augserve-as-printed")
"""Those whose order of small requests depends on what is predicted."""
KNOWING = [name for name, policy in POLICIES.items() if policy.knows != "online"]


@pytest.mark.parametrize("text", ["noise:0.5", "types", "bins:3x10"])
@pytest.mark.parametrize("name", KNOWING)
def test_wrong_predictions_cost_time_and_never_feasibility(name, text):
    """And what is repeated is what would be decided, also then."""
    differs = 0
    for seed in few(range(25), 3 if name in ORDERING else 13):
        instance = serving(seed).replace(tick_seconds=Fraction(1, 10_000))  # some rules have constants in seconds
        guess = predictions(text, instance, seed)
        try:
            schedule = run_policy(instance, POLICIES[name], guess)
        except Unsuited:
            continue
        trace = verify_schedule(instance, schedule)
        long = trace_policy(instance, POLICIES[name], guess, compress=False)
        assert trace.expanded().batches == long.schedule.batches, seed
        differs += schedule.batches != run_policy(instance, POLICIES[name]).batches
    assert differs >= 1 or name not in ORDERING


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.free_calls == "own"])
def test_a_policy_that_handles_calls_itself_sees_only_what_is_predicted(name):
    """Two truths that are believed to be the same are scheduled alike up to where they first differ."""
    compared = 0
    for seed in few(range(25)):
        now = serving(seed)
        then = now.replace(
            requests=tuple(
                r.replace(segments=(*r.segments[:-1], Segment(decode=r.segments[-1].decode + 1))) for r in now.requests
            ),
            machine=now.machine.replace(memory=None if now.machine.memory is None else now.machine.memory + 100),
        )
        now = now.replace(machine=then.machine)
        guess = predictions("bins:3x10", now)
        try:
            one, other = (trace_policy(instance, POLICIES[name], guess) for instance in (now, then))
        except Unsuited:
            continue
        first = min(completions(one).values())
        early = [[b for b in trace.expanded().batches if b.start < first] for trace in (one, other)]
        assert early[0] == early[1], seed
        compared += len(early[0])
    assert compared > 30

"""Generated workloads: seeded, streamed as they would be made in memory, with the moments of the papers' tables."""

import json
import math
import random
import re
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import islice, pairwise

import pytest

from costmodels import COSTS, GPT_J_6B, get_cost
from kvbound.cli.setting import with_handling
from kvcore import BadInput, Instance, Machine
from kvcore.files import read_instance
from kvcore.stream import sizes_of, write_instance
from tests.support.commands import kvbound, one_line
from tests.support.few import few
from workloads.arrivals import arrivals
from workloads.generators import KINDS, Workload, generate
from workloads.generators.calls import Moments, count, gamma, geometric, lognormal
from workloads.generators.kinds import GROUPS, MIXES, TOOLBENCH, TYPES

NANOSECOND = Fraction(1, 10**9)


def mean_and_deviation(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def check_moments(values, wanted, slack=0):
    """The mean is within five standard errors, and so is the deviation, whose error is from the sample's kurtosis."""
    mean, deviation = mean_and_deviation(values)
    kurtosis = math.fsum((value - mean) ** 4 for value in values) / len(values) / deviation**4
    root = math.sqrt(len(values))
    assert abs(mean - wanted.mean) < 5 * deviation / root + slack * wanted.mean
    error = deviation * math.sqrt(max(kurtosis - 1, 1)) / 2 / root
    assert abs(deviation - wanted.deviation) < 5 * error + (slack + 0.02) * wanted.deviation


# --- the distributions -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("moments", [Moments(28.6, 15.6), Moments(9e-5, 6e-5), Moments(1.72, 3.33), Moments(753, 703)])
@pytest.mark.parametrize("distribution", [lognormal, gamma])
def test_continuous_draws_have_their_moments(distribution, moments):
    draw = random.Random(1)
    check_moments([distribution(draw, moments) for _ in range(20_000)], moments)


@pytest.mark.parametrize("call_type", [*TYPES.values(), TOOLBENCH])
def test_numbers_of_calls_have_their_moments_and_are_at_least_one(call_type):
    draw = random.Random(2)
    numbers = [count(draw, call_type.calls) for _ in range(20_000)]
    assert min(numbers) >= 1
    check_moments(numbers, call_type.calls)


@pytest.mark.parametrize("mean", [1, 1.5, 4, 183])
def test_geometric_draws_have_their_mean(mean):
    draw = random.Random(3)
    values = [geometric(draw, mean) for _ in range(20_000)]
    assert min(values) == 1
    check_moments(values, Moments(mean, math.sqrt(mean * (mean - 1)))) if mean > 1 else None


# --- arrivals ----------------------------------------------------------------------------------------------------
def gaps(rate, cv, n=20_000):
    times = list(islice(arrivals(random.Random(4), NANOSECOND, rate=Fraction(rate), cv=cv), n))
    assert times == sorted(times)
    return [(after - before) * 1e-9 for before, after in pairwise([0, *times])]


@pytest.mark.parametrize("cv", [None, Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(4)])
def test_gaps_have_the_rate_and_the_variation(cv):
    check_moments(gaps(5, cv), Moments(0.2, 0.2 * float(cv or 1)))


def test_arrivals_end_with_the_minutes_and_round_up():
    fine = list(arrivals(random.Random(5), NANOSECOND, rate=Fraction(2), minutes=Fraction(10)))
    coarse = list(arrivals(random.Random(5), Fraction(1, 40), rate=Fraction(2), minutes=Fraction(10)))
    assert 1000 < len(fine) < 1400
    assert fine[-1] < 600 * 10**9
    assert coarse == [-(-time // 25_000_000) for time in fine]
    assert list(islice(arrivals(random.Random(5), NANOSECOND, rate=None), 3)) == [0, 0, 0]


@pytest.mark.parametrize(("options", "message"), [
    ({"cv": 2, "rate": None}, "--cv means nothing without --rate"),
    ({"minutes": 2, "rate": None}, "--minutes means nothing without --rate"),
    ({"rate": 10**7}, "the rate of arrivals is from 1/1000000 to 1000000 per second, not 10000000"),
    ({"rate": Fraction(1, 10**7)}, "the rate of arrivals is from"),
    ({"cv": 11}, "the coefficient of variation of the gaps is from 1/10 to 10, not 11"),
    ({"cv": Fraction(1, 20)}, "from 1/10 to 10, not 1/20"),
    ({"minutes": 0}, "arrivals go on for more than 0 and at most 1000000 minutes, not 0"),
    ({"rate": 10**6, "minutes": 1}, "--rate 1000000 for --minutes 1 makes more than 10000000 requests"),
])  # fmt: skip
def test_bad_arrivals_are_answered_in_one_line(options, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        arrivals(random.Random(0), NANOSECOND, **{"rate": Fraction(1)} | options)


def test_arrivals_beyond_the_largest_tick_are_refused():
    late = arrivals(random.Random(0), Fraction(1, 10**12), rate=Fraction(1, 10**6))
    with pytest.raises(BadInput, match=r"arrivals at 1e-06 a second exceed 1000000000000000 ticks of 1/10+ s"):
        list(islice(late, 10))


# --- the kinds ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", few([*TYPES], 3))
def test_requests_of_a_type_have_the_moments_of_the_table(name):
    draw, wanted = random.Random(6), TYPES[name]
    requests = [wanted.request("x", draw, NANOSECOND) for _ in range(4000)]
    check_moments([len(request.calls) for request in requests], wanted.calls)
    check_moments([call.duration * 1e-9 for request in requests for call in request.calls], wanted.seconds)
    contexts = [
        sum(request.context_at_call(k) for k in range(len(request.calls))) / len(request.calls) for request in requests
    ]
    check_moments(contexts, wanted.context, slack=0.01)  # rounding, and prompts of at least 1


def test_every_type_of_infercept_is_equally_likely():
    counts = Counter(type_of(request) for request in Workload("infercept", n=3000).requests())
    assert set(counts) == set(TYPES)
    assert all(abs(number - 500) < 5 * math.sqrt(500) for number in counts.values())


def type_of(request):
    return request.id.partition("-")[0]


def test_a_share_of_mixed_makes_no_calls():
    requests = list(Workload("mixed", n=2000, parameters={"share": Fraction(1, 4)}).requests())
    plain = [request for request in requests if type_of(request) == "plain"]
    assert abs(len(plain) - 500) < 5 * math.sqrt(2000 * 3 / 16)
    assert all((type_of(request) == "plain") == (not request.calls) for request in requests)
    assert max(request.output for request in plain) > 300  # all its segments in one
    for share, calls in ((0, True), (1, False)):
        some = Workload("mixed", n=20, parameters={"share": Fraction(share)}).requests()
        assert all(bool(request.calls) == calls for request in some)


def test_fixed_requests_are_alike():
    made = generate("fixed", n=3, prompt=8, output=16, machine=Machine(memory=100))
    assert [(r.id, r.prompt, r.output, r.arrival) for r in made.requests] == [
        ("fixed-1", 8, 16, 0), ("fixed-2", 8, 16, 0), ("fixed-3", 8, 16, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_is_half_of_each_group_in_a_random_order(mix):
    requests = generate("infermax-mix", n=201, mix=mix.upper()).requests
    first, second = mix.split("+")
    types = [type_of(request) for request in requests]
    assert Counter(types) == {first: 101, second: 100}
    assert 60 < sum(before != after for before, after in pairwise(types)) < 140
    for group in (first, second):
        mine = [request for request in requests if type_of(request) == group]
        prompts, outputs = GROUPS[group]
        assert {(request.prompt, request.output) for request in mine} == {(p, o) for p in prompts for o in outputs}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_seeded_and_its_ids_name_a_type(kind):
    once, again = (generate(kind, n=30, seed=7, rate=Fraction(2)) for _ in range(2))
    assert once.to_json() == again.to_json()
    if kind != "fixed":
        assert generate(kind, n=30, seed=8).requests != generate(kind, n=30, seed=7).requests
    assert [int(request.id.partition("-")[2]) for request in once.requests] == list(range(1, 31))
    assert len(once.name) <= 200


def test_what_is_drawn_of_the_requests_does_not_depend_on_the_arrivals():
    at_once = generate("infercept", n=40, seed=1)
    bursts = generate("infercept", n=40, seed=1, rate=Fraction(3), cv=Fraction(2))
    assert [request.replace(arrival=0) for request in bursts.requests] == list(at_once.requests)


def test_n_and_minutes_end_a_workload_whichever_is_first():
    rate = Fraction(2)
    ten = list(Workload("fixed", n=10, rate=rate, minutes=Fraction(10)).requests())
    minute = list(Workload("fixed", n=10_000, rate=rate, minutes=Fraction(1)).requests())
    assert len(ten) == 10
    assert 70 < len(minute) < 170
    assert minute == list(Workload("fixed", rate=rate, minutes=Fraction(1)).requests())


def test_objectives_are_put_on_every_request_in_ticks():
    made = generate("fixed", n=2, slo_ttft=Fraction("1.01"), slo_normalized=Fraction("0.278"), tick=Fraction(1, 40))
    for request in made.requests:
        assert request.slo is not None
        assert (request.slo.ttft, request.slo.normalized_latency) == (40, Fraction("11.12"))
    (only,) = generate("fixed", n=1, slo_ttft=Fraction(1)).requests
    assert only.slo is not None
    assert (only.slo.ttft, only.slo.normalized_latency) == (40, None)


@pytest.mark.parametrize(("kind", "options", "message"), [
    ("chat", {"n": 1}, "no kind of requests is called 'chat'; there are infercept, toolbench, mixed, fixed, "),
    ("fixed", {}, "give --n, the number of requests, or --rate and --minutes"),
    ("fixed", {"n": 0}, "--n is from 1 to 10000000 requests, not 0"),
    ("fixed", {"n": 10**8}, "--n is from 1 to 10000000 requests, not 100000000"),
    ("fixed", {"n": 1, "tick": Fraction(0)}, "a tick lasts more than 0 seconds, not 0"),
    ("fixed", {"n": 1, "share": 1}, "--share means nothing for fixed; its options are --prompt, --output"),
    ("infercept", {"n": 1, "mix": "a"}, "--mix means nothing for infercept; its options are none of its own"),
    ("fixed", {"n": 1, "prompt": 0}, "--prompt is from 1 to 1000000000000000 tokens, not 0"),
    ("fixed", {"n": 1, "output": 10**16}, "--output is from 1 to 1000000000000000 tokens, not 1"),
    ("mixed", {"n": 1, "share": 2}, "--share, of requests without calls, is from 0 to 1, not 2"),
    ("infermax-mix", {"n": 1, "mix": "siso"}, "--mix is two of siso, silo, liso, lilo, such as siso+lilo, not"),
    ("infermax-mix", {"n": 1, "mix": "siso+siso"}, "--mix is two of"),
    ("infermax-mix", {"rate": 1, "minutes": 1}, "infermax-mix needs --n"),
    ("fixed", {"rate": Fraction(1, 10**6), "minutes": 1}, "no request arrives within --minutes"),
    ("fixed", {"n": 1, "prompt": 60_000}, "fixed: request fixed-1 can never fit: its last token needs 61023"),
    ("fixed", {"n": 1, "slo_ttft": 10**15}, "the objectives in ticks of 1/40 s: ttft: "),
    ("fixed", {"n": 1, "slo_normalized": Fraction(-1)}, "the objectives in ticks of 1/40 s: normalized_latency: "),
])  # fmt: skip
def test_bad_workloads_are_answered_in_one_line(kind, options, message):
    with pytest.raises(BadInput, match=re.escape(message)) as refused:
        generate(kind, **options)
    assert "\n" not in str(refused.value)


# --- streaming ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["plain", 'with "quotes", "requests": [] and Zoë'])
def test_a_streamed_file_is_that_of_the_instance(tmp_path, name):
    whole = generate("infercept", n=30, seed=3, rate=Fraction(1), slo_ttft=Fraction(1)).replace(name=name)
    head = whole.replace(requests=whole.requests[:2])
    sha256, sizes = write_instance(tmp_path / "I.json", head, iter(whole.requests))
    assert (tmp_path / "I.json").read_text(encoding="utf-8") == whole.to_json() + "\n"
    assert (sha256, sizes) == (whole.sha256, sizes_of(whole))


def test_a_file_that_fails_half_way_is_not_there(tmp_path):
    def failing():
        yield from generate("fixed", n=3).requests
        raise BadInput("no more")

    with pytest.raises(BadInput, match="no more"):
        write_instance(tmp_path / "I.json", generate("fixed", n=1), failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("handling", few(["min-waste", "free", "swap"]))
def test_the_command_streams_what_the_library_makes(tmp_path, handling):
    """More than one chunk of requests; handlings are chosen chunk by chunk."""
    target = tmp_path / "I.json"
    done = kvbound(
        "generate", "infercept", "--n", 1100, "--seed", 5, "--rate", 3, "--cv", 2, "--cost", "infercept-6b",
        "--slo-ttft", 1, "--slo-normalized", 0.278, "--handling", handling, "--out", target, "--json", "-",
    )  # fmt: skip
    model = get_cost("infercept-6b")
    made = generate(
        "infercept", n=1100, seed=5, rate=Fraction(3), cv=Fraction(2), slo_ttft=Fraction(1),
        slo_normalized=Fraction("0.278"), machine=model.machine, cost=model.make(), tick=model.tick,
    )  # fmt: skip
    made = with_handling(made, handling)
    assert read_instance(target) == made
    payload = json.loads(done.stdout)
    assert payload["instance_sha256"] == made.sha256
    assert payload["sizes"]["requests"] == 1100


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_requests(tmp_path):
    def peak(n):
        tracemalloc.start()
        kvbound("generate", "fixed", "--n", n, "--out", tmp_path / "I.json")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)  # what is loaded once
    assert peak(12_000) < 1.2 * peak(3000)


def test_the_command_writes_to_standard_output():
    done = kvbound("generate", "fixed", "--n", 2, "--prompt", 4, "--output", 3, "--out", "-", "--memory", 100)
    made = Instance.model_validate_json(done.stdout)
    assert made.machine == GPT_J_6B.replace(memory=100)
    assert [request.peak for request in made.requests] == [6, 6]


def test_a_share_of_zero_is_one(tmp_path):
    kvbound("generate", "mixed", "--n", 20, "--share", 0, "--out", tmp_path / "I.json")
    assert all(request.calls for request in read_instance(tmp_path / "I.json").requests)


@pytest.mark.parametrize("cost", COSTS)
def test_every_cost_brings_its_tick_and_machine(tmp_path, cost):
    kvbound(
        "generate", "toolbench", "--n", 2, "--cost", cost, "--no-evict", "--no-partial", "--out", tmp_path / "I.json"
    )
    made, model = read_instance(tmp_path / "I.json"), COSTS[cost]
    assert (made.cost, made.tick_seconds) == (model.make(), model.tick)
    assert made.machine == (model.machine or GPT_J_6B).replace(evict=False, partial=False)


@pytest.mark.parametrize(("arguments", "message"), [
    (["fixed", "--n", 0], "Invalid value for '--n'"),
    (["fixed", "--n", 1, "--rate", "fast"], "--rate fast: write a number above 0, such as 2, 0.5 or 1/40"),
    (["fixed", "--n", 1, "--rate", "1e999999999"], "--rate 1e999999999: write a number above 0"),
    (["fixed", "--n", 1, "--cv", "0"], "--cv 0: write a number above 0"),
    (["mixed", "--n", 1, "--share", "half"], "--share half: write a number of at least 0"),
    (["fixed", "--n", 1, "--slo-ttft", "1/0"], "--slo-ttft 1/0: write a number above 0"),
    (["fixed", "--n", 1, "--slo-normalized", "x"], "--slo-normalized x: write a number above 0"),
    (["fixed", "--n", 1, "--handling", "keep"], "--handling is one of min-waste, preserve, "),
    (["infercept", "--n", 9, "--handling", "swap", "--host-memory", 1], "--handling swap: request "),
    (["fixed", "--n", 1, "--cost", "infermax-7b", "--tick", "1/40"], "--tick: a tick of the cost infermax-7b lasts"),
    (["fixed", "--n", 1, "--tick", "1e-40"], "fixed: tick_seconds: its numerator and denominator are at most"),
    (["fixed", "--n", 1, "--prefill-tokens", 500], "the machine: prefill_tokens 500 exceeds batch_tokens 384"),
    (["fixed", "--n", 1, "--no-chunked"], "fixed: request fixed-1 can never fit: its prompt is a prefill of 1024"),
    (["fixed", "--n", 1, "--block-size", 0], "Invalid value for '--block-size'"),
])  # fmt: skip
def test_bad_options_of_the_command_are_answered_in_one_line(tmp_path, arguments, message):
    assert message in one_line("generate", *arguments, "--out", tmp_path / "I.json")
    assert list(tmp_path.iterdir()) == []

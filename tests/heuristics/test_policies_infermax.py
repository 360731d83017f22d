"""INFERMAX's schedulers and the references, batch by batch by hand; Figure 1's rule against its plain statement."""

from __future__ import annotations

import random
from typing import Any

import pytest

from heuristics import Ranked, Unsuited, get_policy, run_policy, trace_policy
from heuristics.policies.figure_1 import Fcfs, MarsOrder, RandomOrder, Sjf, SjfApi
from heuristics.policies.rank import RankAsReleased
from kvcore import Call, Instance, Request, Segment
from kvcore.metrics import completions
from tests.heuristics.test_compression import serving
from tests.heuristics.test_policies_today import moves, request
from tests.heuristics.test_policies_today import serving as instance
from tests.support.drawer import crowded_instance
from tests.support.few import few
from workloads.builtin import builtin_instance


def works(given: Instance, policy: str, count: int) -> list[dict[str, int]]:
    return [batch.work for batch in trace_policy(given, get_policy(policy)).expanded().batches[:count]]


# --- Table 1 -----------------------------------------------------------------------------------------------------

TABLE = {
    # C = 6. A has prefilled in batch 0; B (4 tokens) and C (3) come at tick 1.
    "vllm": [{"B": 4}, {"C": 3}, {"A": 1, "B": 1, "C": 1}],  # whole prefills, in batches of their own
    "vllm-hy": [{"B": 4, "A": 1}, {"C": 3, "A": 1, "B": 1}, {"C": 1}],  # and decodes beside them
    "sarathi-c": [{"A": 1, "B": 4, "C": 1}, {"A": 1, "B": 1, "C": 2}, {"C": 1}],  # C in parts of 1 and 2
    "sarathi-nocp": [{"A": 1, "B": 4}, {"A": 1, "B": 1, "C": 3}, {"C": 1}],  # C whole: 1 token of 6 was left
    "sarathi-nohy": [{"A": 1}, {"A": 1}, {"B": 4}, {"B": 1}, {"C": 3}],  # A to its end, then B, then C
}


@pytest.mark.parametrize("name", TABLE)
def test_a_row_of_table_1(name: str) -> None:
    given = instance(None, request("A", 3, 3), request("B", 4, 2, 1), request("C", 3, 2, 1), batch_tokens=6)
    assert works(given, name, 1 + len(TABLE[name])) == [{"A": 3}, *TABLE[name]]


def test_eviction_free_reserves_what_is_held_at_the_end() -> None:
    """Both end with 2 + 4 - 1 = 5 tokens; memory is 8, so that vLLM starts both and evicts B at 4 + 4 = 8 tokens."""
    given = instance(8, request("A", 2, 4), request("B", 2, 4))
    evicting, free = (trace_policy(given, get_policy(name)) for name in ("vllm", "vllm-ef"))
    assert [batch.drop for batch in evicting.expanded().batches] == [{}, {}, {}, {"B": 4}, {}]
    assert completions(evicting) == {"A": 4, "B": 5}  # B refills 2 + 3 tokens, which generates its fourth
    assert completions(free) == {"A": 4, "B": 8}
    assert completions(trace_policy(instance(10, *given.requests), get_policy("vllm-ef"))) == {"A": 4, "B": 4}


@pytest.mark.parametrize("name", ["vllm", "sarathi", "sarathi-c", "sarathi-nocp", "vllm-hy", "sarathi-nohy"])
def test_an_eviction_free_variant_never_evicts(name: str) -> None:
    """So it also runs where the machine does not evict; its row of the table evicts in some of these."""
    free, rows = get_policy(f"{name}-ef"), get_policy(name)
    evictions = 0
    for seed in few(range(60), 6):
        given = serving(seed)
        schedule = run_policy(given, free)
        evictions += sum(len(batch.drop) for batch in run_policy(given, rows).batches)
        fixed = given.replace(machine=given.machine.replace(evict=False))
        assert run_policy(fixed, free).batches == schedule.batches
    assert evictions > 25


def test_a_reservation_counts_while_the_call_preserves() -> None:
    """A ends with 2 + 1 + 1 + 3 - 1 = 6 tokens. B, of 2 + 2 - 1 = 3, does not fit beside them in 8 during A's call."""
    call = Call(duration=5, returns=1, handling="preserve")
    a = Request(id="A", prompt=2, segments=(Segment(decode=1, call=call), Segment(decode=3)))
    b = request("B", 2, 2, 1)
    assert completions(trace_policy(instance(8, a, b), get_policy("sarathi-ef")))["B"] == 9 + 2
    assert completions(trace_policy(instance(9, a, b), get_policy("sarathi-ef")))["B"] == 3


@pytest.mark.parametrize("name", ["sarathi-c", "rank-i", "infermax", "srpt"])
def test_who_evicts_says_where_it_cannot_run(name: str) -> None:
    with pytest.raises(Unsuited, match="it needs a machine with evict"):
        run_policy(instance(9, request("A", 2, 2), evict=False), get_policy(name))
    with pytest.raises(Unsuited, match="it needs a machine with pause"):
        run_policy(instance(9, request("A", 2, 2), pause=False), get_policy(name))


# --- one order for running and waiting requests ------------------------------------------------------------------


def test_a_higher_rank_takes_what_it_needs() -> None:
    """A (4 + 3) runs as B (2 + 1) comes. Rank_I: B first; A's next token finds 6 of 6 held, and A evicts itself."""
    given = instance(6, request("A", 4, 3), request("B", 2, 1, 1))
    by_prompt, by_arrival = (trace_policy(given, get_policy(name)) for name in ("rank-i", "rank-org"))
    assert [(b.work, b.drop) for b in by_prompt.schedule.batches[1:3]] == [({"B": 2}, {"A": 4}), ({"A": 5}, {})]
    assert completions(by_prompt) == {"A": 4, "B": 2}
    assert completions(by_arrival) == {"A": 3, "B": 4}
    assert completions(trace_policy(given, get_policy("rank-o"))) == {"A": 4, "B": 2}  # an output of 1 before 3


def test_who_comes_later_is_evicted_only_if_that_makes_room() -> None:
    """Rank_I: A takes 3 of 8; B (4) lacks 4 beside C, which holds 5 and comes last: C goes."""
    enough = instance(8, request("A", 2, 4), request("C", 5, 3), request("B", 4, 2, 1))
    assert moves(enough, "rank-i", 2) == [({"A": 2, "C": 5}, {}), ({"A": 1, "B": 4}, {"C": 5})]
    # Rank_O: A takes 6 of 9; B (5) lacks 4 beside C, which holds 2: C stays, until A needs its memory
    too_little = instance(9, request("A", 5, 3), request("C", 2, 6), request("B", 5, 4, 1))
    assert moves(too_little, "rank-o", 3) == [({"A": 5, "C": 2}, {}), ({"A": 1, "C": 1}, {}), ({"A": 1}, {"C": 3})]


@pytest.mark.parametrize("name", ["rank-org-as-released", "rank-o-as-released"])
def test_a_rank_as_released_does_not_ask_all_that_wait(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all that come after one that waits are evicted, only those that fit in what is free are asked."""
    asked, ask = [0], RankAsReleased._let_in

    def counted(self: RankAsReleased, *of: Any) -> bool:
        asked[0] += 1
        return ask(self, *of)

    monkeypatch.setattr(RankAsReleased, "_let_in", counted)
    draw = random.Random(5)
    requests = [request(f"R{i}", draw.randint(1, 30), draw.randint(1, 40), i) for i in range(80)]
    made = trace_policy(instance(150, *requests), get_policy(name))
    assert sum(move.kind == "drop" for one in made.requests for move in one.moves) > 80
    assert asked[0] < 3 * len(made.schedule.batches)


def test_a_rank_as_released_drops_nothing_in_vain() -> None:
    """B keeps 4 of 6 in its call, from 1 to 10, and A (4) does not fit: C, which comes after it, goes on alone."""
    first = Segment(decode=1, call=Call(duration=9, handling="preserve"))
    b = Request(id="B", prompt=4, segments=(first, Segment(decode=1)))
    given = instance(6, b, request("A", 4, 1, 1), request("C", 1, 2, 2))
    assert moves(given, "rank-org-as-released", 3) == [({"B": 4}, {}), ({"C": 1}, {}), ({"C": 1}, {})]


def test_srpt_on_one_machine() -> None:
    """A has 4 of 5 tokens left as B comes with 2: B goes first. A third with 3 comes when A has 4, and goes before."""
    given = instance(None, request("A", 1, 5), request("B", 1, 2, 1), request("C", 1, 3, 2), batch_requests=1)
    assert completions(trace_policy(given, get_policy("srpt"))) == {"B": 3, "C": 6, "A": 10}


# --- Section 6 ---------------------------------------------------------------------------------------------------


def test_infermax_evicts_the_shortest() -> None:
    """A (2) and B (5) decode once, to 9 of 9: then B, the longer, decodes, and A is dropped; Sarathi drops B."""
    given = instance(9, request("A", 2, 4), request("B", 5, 4))
    for name, work, drop in (("infermax", "B", {"A": 3}), ("sarathi-c", "A", {"B": 6})):
        batch = trace_policy(given, get_policy(name)).expanded().batches[2]
        assert (batch.work, batch.drop) == ({work: 1}, drop)


def test_the_histogram_reserves_the_mean_of_its_bucket() -> None:
    """R1 (4 + 3 - 1 = 6) is done at 3. Prompts of 4 to 7 share its bucket: R2 and R3 (5) are taken to end with 6."""
    requests = request("R1", 4, 3), request("R2", 5, 2, 3), request("R3", 5, 2, 3)
    assert works(instance(11, *requests), "infermax", 5)[3:] == [{"R2": 5, "R3": 5}, {"R2": 1}]
    assert works(instance(11, *requests), "infermax-histogram", 6)[3:] == [{"R2": 5}, {"R2": 1}, {"R3": 5}]
    assert works(instance(12, *requests), "infermax-histogram", 4)[3:] == [{"R2": 5, "R3": 5}]
    other = request("R1", 4, 3), request("R2", 8, 2, 3), request("R3", 8, 2, 3)  # 8 has four digits: nothing is known
    assert works(instance(17, *other), "infermax-histogram", 4)[3:] == [{"R2": 8, "R3": 8}]


# --- references --------------------------------------------------------------------------------------------------


def test_mc_sf_starts_as_soon_as_no_end_overflows() -> None:
    """Both hold 2, 3, 4. Together 8 > 7 at the ends; one batch apart 4 + 3, and nothing happens in between."""
    given = instance(7, request("A", 2, 3), request("B", 2, 3))
    assert completions(trace_policy(given, get_policy("mc-sf"))) == {"A": 3, "B": 4}


def test_the_areas_order_differently() -> None:
    """Areas: A 1 x 4 + 6 = 10, B 8 x 2 + 1 = 17. B is the shorter. In 10, A (1, 2) beside B (8, 9) is 11 at once."""
    given = instance(10, request("A", 1, 4), request("B", 8, 2))
    assert completions(trace_policy(given, get_policy("mc-sf"))) == {"A": 5, "B": 2}
    assert completions(trace_policy(given, get_policy("memory-area"))) == {"A": 4, "B": 6}


def mc_sf_by_definition(given: Instance) -> dict[str, int]:
    """Batch by batch: try the shortest first, and walk through all batches to come; unit batches, nobody stops."""
    left = sorted(given.requests, key=lambda r: (r.output, r.arrival, given.index[r.id]))
    active: dict[str, tuple[int, Request]] = {}
    ends: dict[str, int] = {}
    now = 0
    while len(ends) < len(given.requests):
        for candidate in [r for r in left if r.arrival <= now]:
            trial = [*active.values(), (now, candidate)]
            horizon = range(now, max(start + r.output for start, r in trial))
            loads = [sum(r.prompt + t - s for s, r in trial if s <= t < s + r.output) for t in horizon]
            if max(loads) > (given.machine.memory or 0):
                break
            active[candidate.id] = now, candidate
            left.remove(candidate)
        now += 1
        for id, (start, r) in list(active.items()):
            if start + r.output == now:
                ends[id] = now
                del active[id]
    return ends


def test_mc_sf_is_what_its_definition_says() -> None:
    """In the theory's model: unit batches without budgets, and no machine that evicts or pauses."""
    draw = random.Random(7)
    for seed in few(range(120), 6):
        if seed < 40:
            given = builtin_instance(f"hindsight:n={draw.randint(2, 14)},M=30,seed={seed}")
        else:
            requests = [
                request(f"R{i}", draw.randint(1, 9), draw.randint(1, 15), draw.choice([0, draw.randint(0, 30)]))
                for i in range(draw.randint(2, 15))
            ]
            given = instance(draw.choice([24, 40, 70]), *requests, evict=False, pause=bool(seed % 2))
        assert completions(trace_policy(given, get_policy("mc-sf"))) == mc_sf_by_definition(given), seed


def test_a_random_order_is_drawn_once_and_from_its_seed() -> None:
    given = instance(6, *(request(f"R{i}", 2, 4) for i in range(6)), batch_requests=1)
    ends = [completions(trace_policy(given, get_policy(name))) for name in ("random", "random", "random:0", "random:7")]
    assert ends[0] == ends[1] == ends[2]
    assert sorted(ends[0].values()) == sorted(ends[3].values()) == [4, 8, 12, 16, 20, 24]  # one after another
    assert ends[0] != ends[3]


# --- Figure 1's rule, repeated where nothing changes -----------------------------------------------------------------


@pytest.mark.parametrize("policy", [Fcfs, Sjf, SjfApi, MarsOrder])
def test_repeated_batches_are_those_that_would_be_decided(policy: type[Ranked]) -> None:
    """On scarce and on ample memory, with all switches and handlings."""
    repeated = 0
    for seed in few(range(40), 6):
        small = serving(seed)
        ample = small.replace(machine=small.machine.replace(memory=3 * (small.machine.memory or 0)))
        for given in (small, ample, crowded_instance(seed), crowded_instance(seed, 25)):
            plain = trace_policy(given, policy(), compress=False)
            fast = trace_policy(given, policy())
            assert fast.expanded().batches == plain.schedule.batches, (seed, given.name)
            repeated += any(batch.repeat > 1 for batch in fast.schedule.batches)
    assert repeated > 15


def scarce(seed: int) -> Instance:
    """Up to 40 requests in the memory of a few, all handlings, tight budgets and hosts, on machines that pause."""
    draw = random.Random(seed)
    given = crowded_instance(seed, 40) if seed % 2 else serving(seed)
    if seed % 2 == 0:  # three of each, at times close to one another, and calls of all handlings
        given = given.replace(
            requests=tuple(
                request.replace(id=f"{request.id}-{k}", arrival=request.arrival + draw.randint(0, 9))
                for request in with_handlings(given, draw)
                for k in range(3)
            )
        )
    machine = given.machine
    largest = max(-(-request.peak // machine.block) for request in given.requests) * machine.block
    memory = draw.choice([machine.memory, largest, largest + draw.randint(0, 2 * largest)])
    budget = draw.choice([machine.batch_tokens, machine.batch_tokens, None])
    return given.replace(
        machine=machine.replace(memory=memory, batch_tokens=budget, pause=True, hybrid=draw.random() < 0.9)
    )


def with_handlings(given: Instance, draw: random.Random) -> list[Request]:
    """Return the requests, their calls handled at random, and no swap that the host cannot hold."""
    handlings = ["preserve", "discard", "free"] + ["swap"] * (given.machine.host_memory is None)

    def handled(segment: Segment) -> Segment:
        call = segment.call
        return segment.replace(call=call and call.replace(handling=draw.choice(handlings)))

    return [r.replace(segments=tuple(map(handled, r.segments))) for r in given.requests]


@pytest.mark.parametrize("seeds", [few(range(300), 30)])
@pytest.mark.parametrize("policy", [Fcfs, Sjf, SjfApi, MarsOrder, RandomOrder])
def test_who_waits_for_memory_waits_while_decodes_go_on(policy: type[Ranked], seeds: range) -> None:
    """On instances in which many wait for scarce memory: batches are repeated although others could work."""
    waited = 0
    for seed in seeds:
        given = scarce(seed)
        plain, fast = (trace_policy(given, policy(), compress=compress) for compress in (False, True))
        assert fast.expanded().batches == plain.schedule.batches, seed
        ends = {request.request.id: request.completion for request in fast.requests}
        waited += sum(
            batch.repeat > 1 and len(batch.work) < sum(r.arrival <= batch.start < ends[r.id] for r in given.requests)
            for batch in fast.schedule.batches
        )
    assert waited > 5 * len(seeds), waited

"""The public interface as Python people know it: reprs, notebooks, pictures, tables, a cost of one's own."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure

import kvbound as kv
from heuristics.policies.figure_1 import Sjf
from solvers.dual_bound import rungs
from solvers.ways import CERTIFYING
from tests.kvbound.test_imports import loaded_by

FIGURE_1 = kv.builtin_instance("mars-figure1")
REFUTED = Path(__file__).parents[2] / "hypotheses" / "shipped" / "mars_rank.py"


@pytest.fixture(scope="module")
def things():
    """One of every kind that a public function returns."""
    fcfs = kv.simulate(FIGURE_1, "fcfs")
    certified = kv.bound(FIGURE_1, method="alone")
    hypothesis = kv.load_hypothesis(str(REFUTED))
    compared = kv.compare(FIGURE_1, ["fcfs", "sjf"], against="bound", time_limit=1)
    return {
        "instance": FIGURE_1, "simulated": fcfs, "bounded": certified, "compared": compared, "trace": fcfs.trace,
        "refuted": kv.check("no-two", hypothesis), "hypothesis": hypothesis, "certificate": certified.certificate,
        "searched": kv.search(kv.SearchSpace(requests=1, calls=0), "fcfs", steps=1), "schedule": fcfs.schedule,
        "ran": compared.policies[0], "report": compared.report(), "policy": kv.get_policy("fcfs"),
        "rung": next(rungs(FIGURE_1, "total-flow-time", CERTIFYING)), "horizon": certified.horizon,
        "batch": fcfs.schedule.batches[0],
        "request": FIGURE_1.requests[0], "carried out": fcfs.trace.requests[0], "waste": kv.memory_waste(fcfs.trace),
        "sweep": kv_sweep(),
    }  # fmt: skip


def kv_sweep():
    from sweeps import Sweep

    return Sweep("a.sqlite", 2, 1, [{"big": "x" * 10_000}], [{"label": "a", "value": 1}, {"label": "b", "value": None}])


def test_everything_shows_itself_in_at_most_five_lines(things):
    public = {name: getattr(kv, name) for name in kv.__all__}
    made = {name: thing() for name, thing in public.items() if name in ("SearchSpace", "Features", "CostFunction")}
    for name, thing in (public | made | things).items():
        limit = 12_000 if name in ("POLICIES", "OBJECTIVES") else 600  # two dictionaries
        assert repr(thing).count("\n") < 5, name
        assert len(repr(thing)) <= limit, (name, repr(thing))
        assert " object at 0x" not in repr(thing), name


def test_a_repr_says_what_it_is(things):
    assert repr(kv.Machine(memory=8)) == str(kv.Machine(memory=8)) == "Machine(memory=8)"
    assert repr(kv.Cost.unit()) == "Cost(CostFunction(busy=1))"
    assert repr(things["instance"]).startswith(
        "Instance('mars-figure1': 3 requests with 3 calls, 11 tokens to generate"
    )
    assert repr(things["simulated"]) == "Result('mars-figure1', total-flow-time: feasible, value 35; by fcfs, ended)"
    assert "bound-only, bound 22 (certificate); by alone on bounds" in repr(things["bounded"])
    assert repr(things["trace"]).startswith("Trace('mars-figure1': 3 requests in 13 batches, ticks 0 to 15)")
    assert repr(things["rung"]).startswith("Rung(method='alone'")
    assert "certificate" not in repr(things["rung"])
    assert "refuted, 0 cases held" in repr(things["refuted"])
    assert "best of 2 policies sjf 31" in repr(things["compared"])
    many = FIGURE_1.requests[0].replace(segments=(*[FIGURE_1.requests[0].segments[0]] * 500, kv.Segment(decode=1)))
    assert len(repr(many)) < 400


SHOWN = ("instance", "simulated", "bounded", "compared", "refuted")


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_a_table_and_a_picture(name, things):
    formatted, _ = DisplayFormatter().format(things[name])
    assert "<table" in formatted["text/html"] or "<dl" in formatted["text/html"]
    assert '<img src="data:image/svg+xml;base64,' in formatted["text/html"]
    assert formatted["text/plain"] == repr(things[name])


@pytest.mark.parametrize("name", [*SHOWN, "trace"])
def test_plot_draws_each(name, things):
    figure = kv.plot(things[name])
    assert isinstance(figure, Figure)
    formatted, _ = DisplayFormatter().format(figure)
    assert "</svg>" in formatted["image/svg+xml"]


def test_what_cannot_be_drawn_is_one_clear_line(things):
    with pytest.raises(kv.BadInput, match="an Instance, Trace, Result, Comparison or Verdict is drawn, not a Schedule"):
        kv.plot(things["schedule"])
    with pytest.raises(kv.BadInput, match="there is no schedule and no bound to draw: unknown"):
        kv.plot(kv.Result(FIGURE_1, "makespan"))
    many = FIGURE_1.replace(requests=tuple(FIGURE_1.requests[0].replace(id=str(i)) for i in range(201)))
    with pytest.raises(kv.BadInput, match="up to 200 requests are drawn, mars-figure1 has 201"):
        kv.plot(many)
    assert "<img" not in many._repr_html_()
    assert ": the first 10, of 201" in many._repr_html_()


def test_the_ground_knows_no_html():
    assert "kvbound.display" not in loaded_by("import kvbound as kv; kv.Instance; kv.Result; kv.load_instance")
    loaded_by("from kvcore.instance import Instance; assert not hasattr(Instance, '_repr_html_')")


def test_tables(things):
    requests = kv.to_dataframe(things["trace"])
    assert requests["latency_seconds"].sum() == things["simulated"].value == 35
    assert list(requests["request"]) == ["R1", "R2", "R3"]
    batches = kv.to_dataframe(things["simulated"], "batches")
    assert len(batches) == 13
    assert (batches["end_seconds"] - batches["start_seconds"]).sum() == 13
    assert kv.to_dataframe(things["simulated"])["value_seconds"].tolist() == [35]
    assert kv.to_dataframe(things["bounded"])["bound_seconds"].tolist() == [22]
    assert list(kv.to_dataframe(things["compared"])["label"][:2]) == ["fcfs", "sjf"]
    solved = kv.solve(FIGURE_1, formulation="events")
    assert "log" not in kv.to_dataframe(solved)
    assert list(kv.to_dataframe(solved, "log")) == ["took_seconds", "by", "bound_seconds", "value_seconds"]
    cells = kv.to_dataframe(things["sweep"])
    assert cells["value"].dtype == "Int64"  # not a float, although one is missing
    assert cells["value"][0] == 1
    assert kv.to_dataframe([{"a": {"b": 1}}])["a.b"].tolist() == [1]
    assert kv.to_dataframe([{"a": "29/3", "b": "R1/2"}, {"a": 2, "b": "R2"}])["a"].tolist() == [29 / 3, 2]


def test_a_table_of_a_comparison_is_numbers_with_units(things):
    frame = kv.to_dataframe(things["compared"])
    words = {"label", "objective", "instance", "policy", "status", "found_by", "proved_by"}
    assert all(frame[name].dtype.kind in "if" for name in frame if name not in words)
    assert frame["mean_seconds"][0] == 35 / 3
    assert {"latency_p99_seconds", "tpot_mean_seconds_per_token", "ratio_as_given"} <= set(frame)
    assert "measures.latency.max" in kv.to_dataframe(things["compared"], "json")


def test_an_instance_may_be_named():
    assert kv.simulate("mars-figure1", "fcfs").value == 35
    with pytest.raises(kv.BadInput, match="is it mars-figure1, mars-like"):
        kv.solve("mars-figre1")
    with pytest.raises(kv.BadInput, match="an instance is an Instance, a name or a file, not 3"):
        kv.solve(3)


def test_read_tells_files_apart(things, tmp_path):
    kv.write_text(tmp_path / "s.json", things["schedule"].to_json())
    kv.write_text(tmp_path / "i.json", FIGURE_1.to_json())
    assert kv.read(tmp_path / "s.json") == things["schedule"]
    assert kv.read(tmp_path / "i.json") == kv.read("mars-figure1") == FIGURE_1


def by_prompt(view, plan):
    plan.fill(sorted(view.ready, key=lambda job: job.prompt))


@pytest.mark.parametrize("rule", [by_prompt, lambda job: job.prompt, Sjf, Sjf()])
def test_a_policy_may_be_a_function_or_a_class(rule):
    run = kv.compare(FIGURE_1, [rule], against=None).policies[0]
    assert run.row["verified"]
    assert run.label in ("by_prompt", "<lambda>", "sjf")


def test_without_traces_a_comparison_keeps_the_best_schedule_and_all_rows():
    names, seconds = "fcfs,mars-order,sjf", {"seconds", "clock_seconds"}
    whole, lean = (kv.compare(FIGURE_1, names, traces=traces, time_limit=1e6) for traces in (True, False))
    assert [run.trace is not None for run in lean.policies] == [False, True, False]
    kept = [[{k: v for k, v in run.row.items() if k not in seconds} for run in each.policies] for each in (whole, lean)]
    assert kept[0] == kept[1]
    assert lean.optima["as-given"].value == whole.optima["as-given"].value == 29


def test_a_policy_that_does_not_end_in_time_has_a_row_that_says_so():
    (row,) = kv.compare(FIGURE_1, ["fcfs"], against=None, time_limit=0).rows()
    assert row["error"] == "policy fcfs fails in batch 0: its time is over"


def test_what_is_no_policy_is_one_line():
    with pytest.raises(kv.BadInput, match="a policy is a name, a Policy, a class of them or a function, not 3"):
        kv.compare(FIGURE_1, [3])


def test_no_such_table(things, monkeypatch):
    with pytest.raises(kv.BadInput, match="a Trace has no table 'rows'; it has requests, batches"):
        kv.to_dataframe(things["trace"], "rows")
    with pytest.raises(kv.BadInput, match="Sweep or rows make a table, not a Machine"):
        kv.to_dataframe(FIGURE_1.machine)
    with pytest.raises(kv.BadInput, match="the result holds no schedule: bound-only"):
        kv.to_dataframe(things["bounded"], "requests")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(kv.MissingTool, match=r"tables need pandas, .*: pip install 'kvbound\[pandas\]'"):
        kv.to_dataframe(things["trace"])


@pytest.mark.parametrize(
    ("ticks", "lasts"),
    [(0, 1), (2, 2), (0.5, 1), (2.0, 2), (0.1 * 3 * 10, 4), (Fraction(5, 2), 3), (Fraction(4, 2), 2)],
)
def test_a_cost_of_ones_own_is_rounded_up(ticks, lasts):
    ran = kv.simulate(FIGURE_1, "fcfs", cost=lambda features: ticks)
    assert {batch.duration for batch in ran.trace.batches} == {lasts}
    assert kv.verify_schedule(ran.instance, ran.schedule).runs == ran.trace.runs


def test_a_cost_of_ones_own_is_asked_about_every_batch():
    linear = kv.Cost((kv.CostFunction(busy=3, decode_kv=2, prefill_pairs=1, divisor=2),))
    one = kv.simulate(FIGURE_1.replace(cost=linear), "mars-order")
    own = kv.simulate(
        FIGURE_1, "mars-order", cost=lambda f: Fraction(3 * f.busy + 2 * f.decode_kv + f.prefill_pairs, 2)
    )
    assert own.trace.runs == one.trace.runs
    assert own.value == one.value


def test_every_policy_runs_at_a_cost_of_ones_own():
    instance = kv.builtin_instance("infercept-ve:k=3").replace(cost=kv.OwnCost(lambda f: 10**5 + f.decode_kv**0.5))
    instance = instance.replace(machine=instance.machine.replace(chunked=True))
    compared = kv.compare(instance, ["vllm", "infercept", "mars", "augserve"], against=None)
    assert all(row["value"] > 0 for row in compared.rows())
    assert "what tests.kvbound.test_python" in instance._repr_html_()


def test_what_needs_linear_functions_says_so(tmp_path):
    own = FIGURE_1.replace(cost=kv.OwnCost(lambda features: 2))
    refused = "the cost is a function of your own .*: only policies and the referee take it"
    for use in (kv.solve, kv.bound, kv.compare, kv.Instance.to_json):
        with pytest.raises(kv.BadInput, match=refused):
            use(own)
    with pytest.raises(kv.BadInput, match="the schedule is for another instance"):
        kv.verify_schedule(FIGURE_1, kv.simulate(own, "fcfs").schedule)
    for wrong in (-1, float("nan"), float("inf"), "2", None):
        with pytest.raises(kv.BadInput, match=f"gives {wrong!r} for Features.*: give ticks from 0 to"):
            kv.simulate(FIGURE_1, "serial", cost=lambda features, wrong=wrong: wrong)

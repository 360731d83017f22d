"""Replays on this CPU: the gate of their seconds, its record, and that each schedule gives the same tokens."""

import tomllib
from pathlib import Path

import pytest

import benchmarks
from benchmarks.agreement import SLICES, complaints, gate, measured


def told(errors=(0.01, -0.09), right=True, gap=0.2, pairs=3):
    rows = [{"schedule": f"s{k}", "makespan_error": error} for k, error in enumerate(errors)]
    some = {"pair": ["s0", "s1"], "gap": gap, "right": right}
    return {"a slice": {"rows": rows, "ranking": {"pairs": [some] * pairs}}}


@pytest.mark.parametrize(("found", "said"), [
    (told(), None),
    (told((0.01, 0.11)), "a slice: the makespan of s1 is +11.0% off"),
    (told((0.01, -0.11)), "a slice: the makespan of s1 is -11.0% off"),
    (told((float("nan"),)), "a slice: the makespan of s0 is +nan% off"),
    (told(right=False), "a slice: s0 and s1 are in the other order"),
    (told(right=False, gap=0.02), "a slice: only 0 pairs are predicted to differ by more than 3%"),
    (told(pairs=2), "a slice: only 2 pairs are predicted to differ by more than 3%"),
    (told(pairs=0), "a slice: only 0 pairs are predicted to differ by more than 3%"),
])  # fmt: skip
def test_what_does_not_hold_is_said(found, said):
    assert complaints(found)[:1] == ([] if said is None else [said])


def test_on_a_busy_machine_it_is_tried_again_and_said(capsys):
    tries = iter([told((0.5,)), told(right=False), told(), told()])
    found, seen = gate(3, lambda: next(tries))
    assert found == told()
    assert [len(bad) for bad in seen] == [1, 3, 0]
    assert capsys.readouterr().err.count("attempt") == 2
    _, seen = gate(2, lambda: told(pairs=0))
    assert [len(bad) for bad in seen] == [1, 1]


def test_the_record_is_of_a_measurement_that_holds():
    kept = tomllib.loads(
        (Path(benchmarks.__file__).parent / "records/20-replays-on-a-cpu.toml").read_text(encoding="utf-8")
    )
    assert [part["notes"].split("`")[1] for part in kept["tables"]] == [f"infercept-ve:k={k},chunked=1" for k in SLICES]
    for part, policies in zip(kept["tables"], SLICES.values(), strict=True):
        rows = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
        assert [row["schedule"] for row in rows][: len(policies)] == list(policies)
        assert len(rows) == len(policies) + 1
        for row in rows:
            predicted, measured = (float(row[f"makespan {key}, s"]) for key in ("predicted", "measured"))
            assert abs(predicted / measured - 1) <= 0.1


@pytest.mark.slow
def test_every_schedule_is_replayed_with_the_same_tokens():
    """Whether their seconds agree is judged by `python -m benchmarks.agreement`: a busy machine fails no test."""
    reports = measured(rounds=1, seconds=1).values()
    for policies, told in zip(SLICES.values(), reports, strict=True):
        assert [row["schedule"] for row in told["rows"]] == [*policies, "best found"]
        assert all(row["same_tokens"] for row in told["rows"])
        assert len(told["ranking"]["pairs"]) >= 3

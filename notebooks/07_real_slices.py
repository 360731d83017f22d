# %% [markdown]
# # 07 Two surprises on slices of real traces
#
# **Question.** Serving papers reorder requests and avoid evictions. On slices of real traces, small enough that the
# optimum is proved: is it the order that matters, and is evicting ever part of the optimum?
#
# The counts are of 200 seeded slices each ([the verdicts](../docs/verdicts.md)); what is computed here needs no data.

# %%
import json
from contextlib import suppress
from itertools import permutations
from pathlib import Path

from IPython.display import SVG
from matplotlib.figure import Figure

import kvbound as kv

folder = Path(kv.__file__).parents[1] / "hypotheses"
records = {row["hypothesis"]: row for row in json.loads((folder / "records.json").read_text(encoding="utf-8"))}

# %% [markdown]
# ## Evicting outside calls
#
# How many slices lose nothing if KV may only leave the device in calls, and how many do:

# %%
for name, row in records.items():
    if name.startswith("real-evict-"):
        print(f"{name}: {row['held']} lose nothing, {row['failed']} do, {row['undecided']} open; mean {row['mean']}")

# %% [markdown]
# The smallest slice of conversations that does, as it was saved: both schedules are optimal, with eviction and without.

# %%
place = folder / "counterexamples" / "real-evict-conversations"
shown = json.loads((place / "counterexample.json").read_text())["shown_by"]
traces = {}
for one in shown:
    instance = kv.read_instance(place / one["instance"])
    traces[one["label"]] = trace = kv.verify_schedule(instance, kv.read_schedule(place / one["schedule"]))
    assert str(kv.objective_value(trace, "total-flow-time")) == one["value"]
kv.compare_schedules([(f"{one['label']}  total {one['value']}", traces[one["label"]]) for one in shown])

# %% [markdown]
# ## Handling or order
#
# From first come, first served with the KV preserved in every call: the best of all orders, and the best of four ways
# to handle the calls (all preserved, discarded or swapped, or each as wastes least), on samples of InferCept's mixture.

# %%
values = {}
for k in (3, 4, 5):
    free = kv.builtin_instance(f"infercept-sample:k={k}").with_free_calls()
    kept = free.with_calls_handled("preserve")
    handled = [kept, free.with_calls_handled("discard"), kv.with_min_waste_handlings(free)]
    with suppress(ValueError):  # the host cannot hold it
        handled.append(free.with_calls_handled("swap"))
    best = kv.solve(free)
    assert best.status == "optimal"
    values[k] = {
        "neither": kv.simulate(kept, "fcfs").value,
        "order": min(kv.simulate(kept, kv.Listed(order)).value for order in permutations(range(k))),
        "handling": min(kv.simulate(each, "fcfs").value for each in handled),
        "optimum": best.value,
    }
    print(k, values[k])

# %% [markdown]
# ## Plot

# %%
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
for i, way in enumerate(("neither", "order", "handling")):
    bars = [100 * (each[way] / each["optimum"] - 1) for each in values.values()]
    axes.bar([x + 0.25 * (i - 1) for x in range(len(bars))], bars, 0.22, label=f"freeing {way}" if i else way)
axes.set_xticks(range(len(values)), [f"{k} requests" for k in values])
axes.set(ylabel="above the optimum, %", title="What freeing the order, or the handling, leaves")
axes.legend()
SVG(kv.render(figure))

# %% [markdown]
# ## Answer
#
# Of 200 slices of the mixture, and of agents, the same comparison found (the same words as in the verdicts):

# %%
for trace in ("mixture", "agents"):
    print(f"{trace}: {records[f'real-handling-or-order-{trace}']['why']}")

# %% [markdown]
# In slots of 1.6 s a refill is cheap, and calls are long: what a call holds, others wait for, in whatever order.

# %%
row = records["real-evict-conversations"]
left = {way: max(each[way] / each["optimum"] - 1 for each in values.values()) for way in ("order", "handling")}
print(
    f"Every optimum evicts on {row['failed']} of {row['failed'] + row['held']} slices of conversations; with calls, "
    f"the best order stays up to {left['order']:.0%} above the optimum, the best handling {left['handling']:.1%}."
)
assert row["failed"] > row["held"]
assert shown[0]["value"] != shown[1]["value"]
assert all(each["optimum"] <= each["handling"] < each["order"] <= each["neither"] for each in values.values())
assert records["real-handling-or-order-mixture"]["verdict"] in ("proved", "claimed to hold")

# %% [markdown]
# # 06 Does the model tell the truth?
#
# **Question.** A schedule is optimal in the model. Does a machine that executes it agree? **This notebook runs on a
# CPU**, with a small model in plain torch: a device of its own, and no word about any GPU. On a GPU the same steps are
# `kvbound calibrate` and `kvbound replay`. What the notebook measures differs by machine and is not kept; the record
# that it shows first does not.

# %%
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from IPython.display import SVG

import kvbound as kv

OBJECTIVE = "busy-time"
folder = Path(tempfile.mkdtemp())


def run(command):
    """Run a command of kvbound in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "kvbound", *command.split()], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# %% [markdown]
# ## The record
#
# Real requests (`infercept-ve`), replayed in turn with a grid of batches; the predictions are fitted to the grid alone.
# Bars are total flow times; above them stands how many times that of the best schedule each is, predicted and measured:
# the gain of the best schedule over vLLM, InferCept and MARS. `python -m benchmarks.agreement` repeats the replays.

# %%
root = Path(kv.__file__).parents[1]
record = tomllib.loads((root / "benchmarks/records/20-replays-on-a-cpu.toml").read_text(encoding="utf-8"))
SVG(kv.render(kv.plot_record(record)))

# %% [markdown]
# ## Calibrate
#
# How long do batches take here? `calibrate` times a grid of them and fits a cost model; the clock is the processor time
# of the thread.

# %% tags=["measured"]
run("calibrate --device cpu --quick --model tiny --repeats 5 --out cost.json --plot fit.svg --json fit.json")
calibration = json.loads((folder / "fit.json").read_text())
print(f"device: {calibration['device']['device']} (a CPU), model: {calibration['model']}")
print(f"{len(calibration['rows'])} batches timed")
SVG((folder / "fit.svg").read_bytes())

# %% [markdown]
# ## The smallest instance
#
# An agent with six calls, and a short chat. There is memory for both, so keeping the KV of the agent costs nothing; if
# it is dropped in each call, it is computed again six times.

# %%
cost = kv.get_cost(str(folder / "cost.json"))


def agent_and_chat(handling):
    """Return an agent whose calls are all handled in one way, and a chat, at the cost that was measured."""
    segments = tuple(kv.Segment(decode=2, call=kv.Call(duration=0, returns=2, handling=handling)) for _ in range(6))
    return kv.Instance(
        name=f"agent-and-chat, {handling}",
        tick_seconds=cost.tick,
        machine=kv.Machine(memory=256, block=16, host_memory=256, chunked=False, pause=False),
        cost=cost.make(),
        requests=(
            kv.Request(id="agent", prompt=96, segments=(*segments, kv.Segment(decode=2))),
            kv.Request(id="chat", prompt=8, segments=(kv.Segment(decode=4),)),
        ),
    )


instances = {handling: agent_and_chat(handling) for handling in ("free", "swap", "discard")}

# %% [markdown]
# ## Solve and verify
#
# The best schedule of each in the model, certified, and executed by the referee as a schedule of free calls.

# %% tags=["measured"]
traces = {}
for handling, instance in instances.items():
    found = kv.exact(instance, OBJECTIVE, time_limit=60)
    assert found.status == "optimal"
    schedule = found.schedule.replace(instance_sha256=instances["free"].sha256)
    traces[handling] = kv.verify_schedule(instances["free"], schedule)
    kv.write_text(str(folder / f"{handling}.json"), schedule.to_json())
    seconds = float(kv.objective_value(traces[handling], OBJECTIVE) * cost.tick)
    print(f"{handling:9} {1000 * seconds:7.2f} ms in the model, {len(traces[handling].batches)} batches")

# %% [markdown]
# ## Replay
#
# An engine with a paged KV cache executes the schedules batch by batch, and measures each batch several times.

# %% tags=["measured"]
kv.write_text(str(folder / "instance.json"), instances["free"].to_json())
options = f"--device cpu --model tiny --cost cost.json --objective {OBJECTIVE} --repeats 9 --json told.json"
run(f"replay instance.json free.json swap.json discard.json {options} --plot replay.svg")
told = json.loads((folder / "told.json").read_text())
for row in told["rows"]:
    print(
        f"{row['schedule']:9} predicted {1000 * row['predicted']:6.1f} ms, measured {1000 * row['measured']:6.1f} ms, "
        f"error {row['error']:+.0%}; of a batch {row['mape']:.0%} in the mean"
    )

# %% [markdown]
# ## Plot

# %% tags=["measured"]
kv.compare_schedules(list(traces.items()))

# %% tags=["measured"]
SVG((folder / "replay.svg").read_bytes())

# %% [markdown]
# ## Answer
#
# What has to hold on any machine: the tokens do not depend on the schedule, and schedules whose predictions are far
# apart are in that order.

# %% tags=["measured"]
gains = {gain["schedule"]: gain for gain in told["gains"]}
ranks = told["ranking"]
print(
    f"Dropping the KV takes {gains['discard']['predicted']:.2f} times as long as the best schedule by the model and "
    f"{gains['discard']['measured']:.2f} times as measured; {ranks['right']} of {len(ranks['pairs'])} pairs are in the "
    "order that was predicted."
)

# %%
print(
    "On this CPU the tokens do not depend on the schedule, and dropping the KV takes longer than the best schedule by "
    "the model and as measured."
)
assert all(row["same_tokens"] for row in told["rows"])
assert gains["discard"]["predicted"] > 1
assert gains["discard"]["measured"] > 1

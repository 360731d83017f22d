# %% [markdown]
# # 08 Is it worth to idle for a prefix?
#
# **Question.** Requests begin alike, and the device keeps what they share until it needs the memory. Engines never idle
# while a request waits. What does that cost, and what do other orders of forgetting give?

# %%
from fractions import Fraction

from IPython.display import SVG
from matplotlib.figure import Figure

import kvbound as kv

OBJECTIVE = "total-flow-time"

# %% [markdown]
# ## The instance
#
# Prompts of three tokens, a tick each, one request at a time, and memory for one. R1, R3 and R4 begin with the same two
# tokens; R2 arrives a tick before R3.

# %%
instance = kv.builtin_instance("prefix-idles")
instance

# %% [markdown]
# ## Solve and verify
#
# Two policies, which differ in what they forget, and the optimum with its certificate.

# %%
POLICIES = {"vllm-v1-prefix": "LRU", "vllm-v1-prefix-belady": "needed last goes first"}
ran = {policy: kv.simulate(instance, policy, OBJECTIVE) for policy in POLICIES}
found = kv.exact(instance, OBJECTIVE)
proved = kv.verify_certificate(instance, found.certificate)
traces = {policy: kv.verify_schedule(instance, result.schedule) for policy, result in ran.items()}
traces["optimum"] = kv.verify_schedule(instance, found.schedule)
values = {name: kv.objective_value(trace, OBJECTIVE) for name, trace in traces.items()}
for name, value in values.items():
    print(f"{name}: {value}")

# %% [markdown]
# ## Plot

# %%
kv.compare_schedules([(f"{name}  total {values[name]}", trace) for name, trace in traces.items()])

# %% [markdown]
# R2 would take the memory in which R3 and R4 find their prefix. The optimum gives it a tick, for nothing; idling from
# tick 3 to 4 is worth the same.

# %%
batches = (
    kv.Batch(start=0, work={"R1": 3}),
    kv.Batch(start=4, work={"R3": 1}, reuse={"R3": 2}),
    kv.Batch(start=5, work={"R4": 1}, reuse={"R4": 2}),
    kv.Batch(start=6, work={"R2": 3}, forget={"xy": 2}),
)
waits = kv.Schedule(instance_sha256=instance.sha256, batches=batches)
idle = kv.objective_value(kv.verify_schedule(instance, waits), OBJECTIVE)
idle

# %% [markdown]
# ## A family
#
# A prefix of k k tokens, another request as its first user ends, and k more users a tick later.

# %%
sizes, ratios = (2, 3, 4, 6, 8), []
for k in sizes:
    family = kv.builtin_instance(f"prefix-followers:k={k}")
    rule = kv.verify_schedule(family, kv.simulate(family, "vllm-v1-prefix", OBJECTIVE).schedule)
    better = kv.verify_schedule(family, kv.improve(family, OBJECTIVE, rounds=150).schedule)
    ratios.append(Fraction(kv.objective_value(rule, OBJECTIVE), kv.objective_value(better, OBJECTIVE)))
figure = Figure(figsize=(5, 3), layout="constrained")
axes = figure.subplots()
axes.plot([k * k for k in sizes], [float(ratio) for ratio in ratios], marker="o")
axes.set(xlabel="tokens of the prefix", ylabel="vllm-v1-prefix / one that waits")
SVG(kv.render(figure))

# %% [markdown]
# ## Answer

# %%
print(
    f"One idle tick gives {values['optimum']} where LRU has {values['vllm-v1-prefix']} and forgetting with hindsight "
    f"{values['vllm-v1-prefix-belady']}; in the family, the ratio grows to {float(ratios[-1]):.1f}, with the square "
    "root of the prefix."
)
assert proved == values["optimum"] == idle < min(values[policy] for policy in POLICIES)
assert all(ratio > Fraction(3, 4) * k for k, ratio in zip(sizes, ratios, strict=True))

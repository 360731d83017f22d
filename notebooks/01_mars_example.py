# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 The example of MARS, and its true optimum
#
# **Question.** MARS and LAMPS explain themselves with three requests (MARS, Figure 1; LAMPS, Figure 3): each calls an
# API once, and the way in which its KV is kept meanwhile is given. The best schedule that the papers show has a mean
# latency of 10 ticks. Is there a better one?

# %%
from fractions import Fraction

from IPython.display import SVG

import kvbound as kv
from kvbound.plots import render

# %% [markdown]
# ## The instance
#
# One request runs at a time, one token a tick, and memory holds 6 tokens.

# %%
example = kv.builtin_instance("mars-figure1")
for request in example.requests:
    call = request.calls[0]
    before, after = (segment.decode for segment in request.segments)
    print(f"{request.id}: {before} tokens, a call of {call.duration} ticks ({call.handling}), {after} token")

# %% [markdown]
# ## Solve
#
# Four policies of the papers, then the best schedule with the handlings as given, and with every handling free.

# %%
schedules = {name: kv.simulate(example, name) for name in ("fcfs", "sjf", "sjf-api", "mars-order")}
schedules["optimum, as given"] = kv.solve(example, time_limit=60)
schedules["optimum, free"] = kv.solve(example, handling="free", time_limit=60)

# %% [markdown]
# ## Verify
#
# The referee executes each schedule and counts. It knows no solver. The bounds are proved once more by a certificate,
# which a checker recomputes in whole numbers.

# %%
means = {}
for name, result in schedules.items():
    trace = kv.verify_schedule(result.instance, result.schedule)
    means[name] = Fraction(kv.objective_value(trace, "total-flow-time"), len(example.requests))
    print(f"{name:18} mean latency {means[name]!s:>5} ticks, {result.status}")

# %%
proved = {}
for name in ("optimum, as given", "optimum, free"):
    instance = schedules[name].instance
    certificate = kv.bound(instance, "total-flow-time", method="exhaustive", time_limit=60).certificate
    proved[name] = Fraction(kv.verify_certificate(instance, certificate), len(example.requests))
    print(f"{name:18} no schedule has a mean below {proved[name]}")

# %% [markdown]
# ## Plot

# %%
titles = [(f"{name}  mean {means[name]}", result.trace) for name, result in schedules.items()]
SVG(render(kv.compare_schedules(titles)))

# %% [markdown]
# ## Answer

# %%
as_given, free, mars = means["optimum, as given"], means["optimum, free"], means["mars-order"]
print(
    f"MARS's order has a mean of {mars}; with its own handlings {as_given} is possible, with free ones {free}, "
    "and both are proved optimal."
)
assert all(proved[name] == means[name] for name in proved)
assert free < as_given < mars == 10

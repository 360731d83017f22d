# %% [markdown]
# # 01 The example of MARS, and its true optimum
#
# **Question.** MARS and LAMPS explain themselves with three requests (MARS, Figure 1; LAMPS, Figure 3): each calls an
# API once, and the way in which its KV is kept meanwhile is given. The best schedule that the papers show has a mean
# latency of 10 ticks. Is there a better one?

# %%
from fractions import Fraction

import kvbound as kv

# %% [markdown]
# ## The instance
#
# One request runs at a time, one token a tick, and memory holds 6 tokens.

# %%
example = kv.builtin_instance("mars-figure1")
example

# %% [markdown]
# ## Solve
#
# Four policies of the papers, then the best schedule with the handlings as given, and with every handling free.

# %%
compared = kv.compare(example, ["fcfs", "sjf", "sjf-api", "mars-order"])
compared

# %% [markdown]
# ## Verify
#
# The referee executes each schedule and counts. It knows no solver. The bounds are proved once more by a certificate,
# which a checker recomputes in whole numbers.

# %%
means = {}
for name, trace in compared.schedules():
    executed = kv.verify_schedule(trace.instance, trace.schedule)
    means[name] = Fraction(kv.objective_value(executed, "total-flow-time"), len(example.requests))
    print(f"{name:18} mean latency {means[name]!s:>5} ticks")

# %%
proved = {}
for handling, optimum in compared.optima.items():
    certificate = kv.bound(optimum.instance, "total-flow-time", method="events", time_limit=60).certificate
    proved[handling] = Fraction(kv.verify_certificate(optimum.instance, certificate), len(example.requests))
    print(f"handling {handling:9} no schedule has a mean below {proved[handling]}")

# %% [markdown]
# ## Answer

# %%
as_given, free, mars = means["optimum, as given"], means["optimum, free"], means["mars-order"]
print(
    f"MARS's order has a mean of {mars}; with its own handlings {as_given} is possible, with free ones {free}, "
    "and both are proved optimal."
)
assert proved == {"as-given": as_given, "free": free}
assert free < as_given < mars == 10

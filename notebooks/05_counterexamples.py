# %% [markdown]
# # 05 Counterexamples, found and shrunk
#
# **Question.** How bad can a scheduler be, and what is the smallest instance that shows it? A search over a bounded
# family of instances looks for the largest ratio to the optimum, then makes the worst instance smaller for as long as
# it stays as bad. On the command line this is `kvbound search`.

# %%
from fractions import Fraction

from IPython.display import display

import kvbound as kv

OBJECTIVE = "total-flow-time"

# %% [markdown]
# ## The families
#
# Unit batches, a handful of tokens, and memory that is tight: two requests, of which every instance is looked at; three
# requests, sought by simulated annealing; and two requests with a call each, for MARS.

# %%
two = kv.SearchSpace(requests=2, memory=6, prompt=2, decode=4, arrival=1)
three = kv.SearchSpace(requests=3, memory=8, prompt=3, decode=4, arrival=2)
calls = kv.SearchSpace(requests=2, memory=6, prompt=2, decode=3, calls=1, duration=4, arrival=1)

# %% [markdown]
# ## Search and shrink

# %%
hunts = {
    ("vllm", "two requests"): kv.search(two, "vllm", OBJECTIVE),
    ("vllm", "three requests"): kv.search(three, "vllm", OBJECTIVE, steps=150),
    ("mars", "two with calls"): kv.search(calls, "mars", OBJECTIVE, steps=150),
}
for (policy, family), seen in hunts.items():
    whole = 2 in seen.complete
    print(
        f"{policy}, {family}: {seen.looked} instances, {'all of two requests' if whole else 'a sample'}; worst ratio "
        f"{seen.unshrunk.at_least}, after shrinking {seen.claim.at_least}"
    )

# %% [markdown]
# ## The smallest instances

# %%
for (policy, family), seen in hunts.items():
    display(seen.claim.instance.replace(name=f"{policy}, {family}"))

# %% [markdown]
# ## Solve and verify
#
# On the smallest instances once more: the policy and the proved optimum, both executed by the referee.

# %%
pictures, ratios = [], {}
for (policy, family), seen in hunts.items():
    instance = seen.claim.instance
    ran, found = kv.simulate(instance, policy, OBJECTIVE), kv.exact(instance, OBJECTIVE)
    theirs, best = kv.verify_schedule(ran.instance, ran.schedule), kv.verify_schedule(instance, found.schedule)
    value, optimum = kv.objective_value(theirs, OBJECTIVE), kv.objective_value(best, OBJECTIVE)
    assert found.status == "optimal"
    assert optimum == found.value
    ratios[policy, family] = Fraction(value, optimum)
    pictures += [(f"{policy}  total {value}", theirs), (f"optimum  total {optimum}", best)]
    print(f"{policy}, {family}: {value} against {optimum}, a ratio of {ratios[policy, family]}")

# %% [markdown]
# ## Plot

# %%
kv.compare_schedules(pictures)

# %% [markdown]
# ## Answer

# %%
vllm_two, vllm_three, mars_two = ratios.values()
print(
    f"vLLM's order can cost {float(vllm_two - 1):.0%} with two requests (no instance of that family is worse) and "
    f"{float(vllm_three - 1):.0%} with three, and MARS's {float(mars_two - 1):.0%} with two requests that call."
)
assert all(ratios[key] == seen.claim.ratio for key, seen in hunts.items())
assert hunts["vllm", "two requests"].complete[-1] == 2
assert all(seen.claim.ratio >= seen.unshrunk.at_least for seen in hunts.values())
assert vllm_three > vllm_two > 1 < mars_two

# %% [markdown]
# # 04 How far are the policies?
#
# **Question.** How far are the schedulers of the papers from the best schedule, when few requests arrive and when many
# do? On small instances optima are certified. On larger ones a proved lower bound says how far they are at most.

# %%
from fractions import Fraction

from IPython.display import SVG
from matplotlib.figure import Figure

import kvbound as kv

OBJECTIVE = "total-flow-time"

# %% [markdown]
# ## The smallest instance
#
# Six requests like those of MARS's example, one every so many ticks. Every call may be handled in any way.

# %%
GAPS = (0, 2, 4, 6, 8, 12)
SMALL_POLICIES = ("fcfs", "sjf", "sjf-api", "mars-order")


def arriving(gap):
    """Return six requests of which one arrives every `gap` ticks."""
    six = kv.builtin_instance("mars-like:n=6,seed=0")
    requests = tuple(request.replace(arrival=gap * k) for k, request in enumerate(six.requests))
    return six.replace(name=f"{six.name}, one every {gap} ticks", requests=requests)


small = {gap: arriving(gap) for gap in GAPS}

# %% [markdown]
# ## Solve and verify
#
# Each optimum is certified. The referee gives the value of each schedule, the optimal ones included.


# %%
def referee(instance, schedule):
    """Return the value of a schedule that keeps all rules; a broken one is an error."""
    return kv.objective_value(kv.verify_schedule(instance, schedule), OBJECTIVE)


def policy_values(instance, policies):
    """Return the value of each policy."""
    return {name: referee(instance, kv.simulate(instance, name, OBJECTIVE).schedule) for name in policies}


optima = {gap: kv.exact(instance, OBJECTIVE, time_limit=60) for gap, instance in small.items()}
small_ratios = {}
print("gap  optimum  best policy, worst policy over the optimum")
for gap, instance in small.items():
    optimum = referee(instance, optima[gap].schedule)
    assert optima[gap].status == "optimal"
    assert optimum == optima[gap].value
    found = policy_values(instance, SMALL_POLICIES)
    small_ratios[gap] = {name: Fraction(value, optimum) for name, value in found.items()}
    ratios = [float(ratio) for ratio in small_ratios[gap].values()]
    print(f"{gap:3} {optimum:8}  {min(ratios):.3f}, {max(ratios):.3f}")

# %% [markdown]
# ## A larger one, with bounds
#
# 24 requests drawn from InferCept's Table 1, on GPT-J-6B at the cost that it measured, with memory for 10,240 tokens of
# KV. The time that requests spend in calls is the same in every schedule, so it is taken off both the value and the
# bound.

# %%
POLICIES = ("vllm", "preserve", "infercept", "mars", "augserve")
cost = kv.get_cost("infercept-6b")
machine = cost.machine.replace(memory=10_240)
base = kv.generate("infercept", n=24, rate=Fraction(2), cost=cost.make(), tick=cost.tick, machine=machine)
large = {factor: kv.scaled(base, factor) for factor in (Fraction(1, 4), Fraction(1), Fraction(4))}
in_calls = sum(request.call_time for request in base.requests)


def lower_bound(instance):
    """Return the bound by shares of time, as the checker recomputes it from its certificate."""
    proof = kv.bound(instance, OBJECTIVE, method="shares", time_limit=60)
    return kv.verify_certificate(instance, proof.certificate)


large_ratios = {}
for instance in large.values():
    least = lower_bound(instance) - in_calls
    found = policy_values(instance, POLICIES)
    large_ratios[kv.rate(instance)] = {name: Fraction(value - in_calls, least) for name, value in found.items()}
    seconds = float(least * cost.tick / len(instance.requests))
    print(f"{float(kv.rate(instance)):5.2f} arrivals a second: at least {seconds:.3f} s a request besides calls")

# %% [markdown]
# ## Plot
#
# Left: the ratio to the optimum. Right: the ratio to the bound, which the ratio to the optimum does not exceed.


# %%
def draw_ratios(ax, rows, label):
    """Draw the ratio of each policy over the keys of `rows`."""
    for name in next(iter(rows.values())):
        ax.plot([float(x) for x in rows], [float(ratios[name]) for ratios in rows.values()], marker="o", label=name)
    ax.axhline(1, color="0.6", linewidth=0.8)
    ax.set_xlabel(label)
    ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


figure = Figure(figsize=(9, 3), layout="constrained")
left, right = figure.subplots(1, 2)
draw_ratios(left, small_ratios, "ticks between arrivals")
draw_ratios(right, large_ratios, "arrivals per second")
left.set(title="small: value / optimum", ylim=(0.9, None))
right.set(title="large: value / bound, besides calls", yscale="log")
SVG(kv.render(figure))

# %% [markdown]
# The optimal schedule of the small instance at full load:

# %%
kv.plot(kv.verify_schedule(small[0], optima[0].schedule))

# %% [markdown]
# ## Answer

# %%
best_small = {gap: min(ratios.values()) for gap, ratios in small_ratios.items()}
best_large = {arrivals: min(ratios.values()) for arrivals, ratios in large_ratios.items()}
low, high = min(best_large), max(best_large)
print(
    f"On six requests the best policy is {float(max(best_small.values()) - 1):.0%} above the optimum at some load and "
    f"reaches it at {sum(ratio == 1 for ratio in best_small.values())} of {len(GAPS)}; on 24 requests the best one is, "
    f"besides calls, at most {float(best_large[low]):.2f} times the optimum at {float(low):.1f} arrivals a second and "
    f"at most {float(best_large[high]):.2f} times at {float(high):.1f}."
)
assert all(ratio >= 1 for rows in (small_ratios, large_ratios) for ratios in rows.values() for ratio in ratios.values())
assert max(best_small.values()) > Fraction(6, 5)
assert best_small[max(GAPS)] == 1
assert best_large[low] < best_large[high]

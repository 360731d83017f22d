# %% [markdown]
# # 02 When eviction is optimal
#
# **Question.** Can it be right to evict a request and compute its KV a second time? INFERMAX answers in Section 5.1 and
# Figure 15 with four requests of prompt I and four output tokens each: memory holds two prompts, but not two ends. This
# notebook solves them for I from 1 to 1024 and draws the figure again.

# %%
from IPython.display import SVG, display
from matplotlib.figure import Figure

import kvbound as kv

# %% [markdown]
# ## The instance
#
# Batches last as long as INFERMAX's model of Llama-2-7B says. The objective is the sum of all batch times.

# %%
PROMPTS = [2**k for k in range(11)]
instances = {prompt: kv.builtin_instance(f"infermax-figure15:I={prompt}") for prompt in PROMPTS}
instances[1]

# %% [markdown]
# ## Solve
#
# Each instance twice: as it is, and on a machine that may not evict.


# %%
def without_eviction(instance):
    """Return the instance on a machine that never takes KV away."""
    return instance.replace(machine=instance.machine.replace(evict=False))


def optimum(instance):
    """Return the best schedule there is, with its certificate."""
    found = kv.exact(instance, "busy-time", time_limit=60)
    assert found.status == "optimal"
    return found.schedule


best = {prompt: optimum(instance) for prompt, instance in instances.items()}
kept = {prompt: optimum(without_eviction(instance)) for prompt, instance in instances.items()}

# %% [markdown]
# ## Verify
#
# The referee executes every schedule: what it costs, and how many evictions it has.

# %%
traces, savings, evictions = {}, {}, {}
print("prompt  best, ms  without eviction, ms  saved  evictions")
for prompt, instance in instances.items():
    traces[prompt] = kv.verify_schedule(instance, best[prompt])
    with_it = kv.objective_value(traces[prompt], "busy-time")
    without = kv.objective_value(kv.verify_schedule(without_eviction(instance), kept[prompt]), "busy-time")
    savings[prompt] = 1 - with_it / without
    evictions[prompt] = sum(len(batch.drop) for batch in best[prompt].batches)
    print(f"{prompt:6} {with_it / 1e6:9.2f} {without / 1e6:21.2f} {savings[prompt]:6.1%} {evictions[prompt]:10}")

# %% [markdown]
# ## Plot
#
# The figure again: phases above, memory below, for the shortest prompt, the longest that is evicted, and the next one.

# %%
last = max(prompt for prompt in PROMPTS if evictions[prompt])
for prompt in (1, last, 2 * last):
    title = f"I = {prompt}  {evictions[prompt]} evictions"
    display(kv.compare_schedules([(title, traces[prompt])]))

# %%
figure = Figure(figsize=(5, 2.5), layout="constrained")
ax = figure.subplots()
ax.plot(PROMPTS, [100 * savings[prompt] for prompt in PROMPTS], marker="o")
ax.set_xscale("log", base=2)
ax.set(xlabel="prompt I, tokens", ylabel="time saved by eviction, %", ylim=(0, None))
SVG(kv.render(figure))

# %% [markdown]
# ## Answer
#
# INFERMAX finds the same turning point, but less to save (Section 5.1): "This approach can reduce latency by up to 17%
# compared to EF schedules as I decreases." Here the comparison is with the best schedule that never evicts, at the
# published cost model.

# %%
most = max(savings, key=savings.get)
print(
    f"Eviction is optimal for prompts up to {last} tokens, where it saves up to {savings[most]:.1%} (at I = {most}); "
    "for longer ones it saves nothing; every optimum has a certificate."
)
assert last == 32
assert savings[most] > 0.17
assert [prompt for prompt in PROMPTS if evictions[prompt]] == [prompt for prompt in PROMPTS if prompt <= last]
assert all((savings[prompt] > 0) == (evictions[prompt] > 0) for prompt in PROMPTS)

# %% [markdown]
# # 03 Preserve, Discard or Swap
#
# **Question.** A request pauses for a call. Its KV can stay on the device, be dropped and computed again, or be swapped
# to the host. InferCept chooses what wastes the least memory (its equations 1 to 5). How does the best choice depend on
# the length of the call and of the context, and what does the rule lose?

# %%
from fractions import Fraction

from IPython.display import SVG
from matplotlib.figure import Figure

import kvbound as kv

# %% [markdown]
# ## The instance
#
# Two requests: an agent with one call, and a chat that wants the memory meanwhile. A batch takes 4 ticks and 1 more a
# token; a token takes 1 tick to or from the host, beside the work.

# %%
CONTEXTS = (4, 8, 12, 16, 20)
DURATIONS = (5, 10, 20, 40, 80)
COST = kv.Cost((kv.CostFunction(busy=4, tokens=1), kv.CostFunction(swap_out_tokens=1, swap_in_tokens=1)))


def agent_and_chat(prompt, duration, handling="free"):
    """Return the two requests: an agent with that prompt and that call, and a chat."""
    call = kv.Call(duration=duration, returns=1, handling=handling)
    agent = kv.Request(id="agent", prompt=prompt, segments=(kv.Segment(decode=2, call=call), kv.Segment(decode=2)))
    chat = kv.Request(id="chat", prompt=8, segments=(kv.Segment(decode=6),))
    return kv.Instance(
        name=f"agent-and-chat:{prompt},{duration},{handling}",
        machine=kv.Machine(memory=24, host_memory=24),
        cost=COST,
        requests=(agent, chat),
    )


agent_and_chat(8, 10)

# %% [markdown]
# ## Solve and verify
#
# For each cell of the map the best schedule with each handling, and the best of all. Each optimum is certified;
# the referee executes it and gives the value that is used.


# %%
def optimum(instance):
    """Return the value and the trace of an optimal schedule, both from the referee."""
    found = kv.exact(instance, "total-flow-time", time_limit=60)
    assert found.status == "optimal"
    trace = kv.verify_schedule(instance, found.schedule)
    assert kv.objective_value(trace, "total-flow-time") == found.value
    return found.value, trace


def greedy_choice(prompt, duration):
    """Return the handling of least waste, by InferCept's rule."""
    return kv.with_min_waste_handlings(agent_and_chat(prompt, duration)).requests[0].calls[0].handling


cells = [(prompt, duration) for prompt in CONTEXTS for duration in DURATIONS]
values = {
    (*cell, handling): optimum(agent_and_chat(*cell, handling))[0]
    for cell in cells
    for handling in ("preserve", "discard", "swap", "free")
}
greedy = {cell: greedy_choice(*cell) for cell in cells}
loss = {cell: Fraction(values[*cell, greedy[cell]], values[*cell, "free"]) for cell in cells}
best = {
    cell: [way for way in ("preserve", "discard", "swap") if values[*cell, way] == values[*cell, "free"]]
    for cell in cells
}

# %% [markdown]
# ## Plot
#
# Left: the handlings with which the optimum is reached (P preserve, D discard, S swap). Right: what the rule chooses,
# and by how much the best schedule with that choice is above the optimum.


# %%
SHADES = {"preserve": 0, "swap": 0.1, "discard": 0.2, "mixed": 0.3}


def draw_map(ax, title, text, shade):
    """Draw a table of cells, contexts upwards and durations to the right."""
    ax.imshow([[shade(p, d) for d in DURATIONS] for p in CONTEXTS], origin="lower", cmap="Blues", vmin=0, vmax=0.4)
    for y, prompt in enumerate(CONTEXTS):
        for x, duration in enumerate(DURATIONS):
            ax.text(x, y, text(prompt, duration), ha="center", va="center", fontsize=7)
    ax.set_xticks(range(len(DURATIONS)), DURATIONS)
    ax.set_yticks(range(len(CONTEXTS)), CONTEXTS)
    ax.set(title=title, xlabel="duration of the call, ticks", ylabel="prompt of the agent, tokens")


figure = Figure(figsize=(7.5, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
draw_map(
    left,
    "optimal",
    lambda *cell: "/".join(way[0].upper() for way in best[cell]) or "mixed",
    lambda *cell: SHADES[(best[cell] or ["mixed"])[0]],
)
draw_map(
    right,
    "least waste",
    lambda *cell: f"{greedy[cell][0].upper()}\n+{float(loss[cell] - 1):.0%}",
    lambda *cell: float(loss[cell] - 1),
)
SVG(kv.render(figure))

# %% [markdown]
# The cell where the rule loses most, both ways:

# %%
worst = max(cells, key=loss.get)
_, as_greedy = optimum(agent_and_chat(*worst, greedy[worst]))
_, as_free = optimum(agent_and_chat(*worst))
chosen = kv.handlings(as_free)["agent/1"]
agent, chat = as_free.requests
kv.compare_schedules([(f"least waste: {greedy[worst]}", as_greedy), (f"optimum: {chosen}", as_free)])

# %% [markdown]
# ## Answer
#
# The rule, as `engine.min_waste` has it, takes all memory beside the agent as wanted by others. In the worst cell
# the chat is done before the call starts, and nobody wants it.

# %%
lost = [cell for cell in cells if loss[cell] > 1]
print(
    f"The rule of least waste is right in {len(cells) - len(lost)} of {len(cells)} cells and loses up to "
    f"{float(loss[worst] - 1):.1%} (prompt {worst[0]}, call of {worst[1]} ticks: it chooses {greedy[worst]}, "
    f"{chosen} is optimal), though all else is then scheduled optimally."
)
assert all(value >= values[prompt, duration, "free"] for (prompt, duration, _), value in values.items())
assert chat.completion <= agent.calls[0].start
assert 0 < len(lost) < len(cells)
assert loss[worst] > Fraction(11, 10)

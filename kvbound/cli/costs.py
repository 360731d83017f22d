"""`kvbound costs`."""

from typing import Annotated, Any

import typer
from rich.console import Console

from costmodels import COSTS, DEVICES, MODELS, CostModel, get_cost
from costmodels.cost_files import read_cost
from costmodels.devices import GIB
from kvbound.cli.common import AlignedTable, JsonOption, emit, table
from kvbound.instance_text import coefficients
from kvcore.cost_file import Errors, FitReport, ShapeFit

NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="a cost model, roofline:model=..,device=.., or a cost file")
]


def costs(name: NameArgument = None, json: JsonOption = None) -> None:
    """List the cost models, devices and models; with NAME, say what one cost is in microseconds."""
    if name is None:
        emit(json, {"rows": _costs(), "devices": [*map(vars, DEVICES.values())], "models": _models()}, _show_all)
        return
    show_cost(name, get_cost(name), read_cost(name).fit if name.endswith(".json") else None, json)


def show_cost(name: str, model: CostModel, fit: FitReport | None, json: str | None) -> None:
    """Print one cost, and how well it fits if it was fitted."""
    facts = _facts(name, model)
    emit(json, facts | {"fit": fit and fit.model_dump(mode="json")}, lambda console: _show(facts, fit, console))


def _costs() -> list[dict[str, Any]]:
    return [
        {"name": name, "tick_seconds": str(model.tick), "memory": model.machine and model.machine.memory,
         "what": model.what, "source": model.source}
        for name, model in COSTS.items()
    ]  # fmt: skip


def _models() -> list[dict[str, Any]]:
    return [
        {"name": model.name, "parameters": model.parameters, "layers": model.layers, "kv_bytes": model.kv_bytes(),
         "weight_bytes": model.weight_bytes, "source": model.source, "note": model.note}
        for model in MODELS.values()
    ]  # fmt: skip


def _show_all(console: Console) -> None:
    rows = [(row["name"], row["memory"], row["what"], row["source"]) for row in _costs()]
    console.print(table(("cost", "M, tokens", "what", "source"), rows, right=[1]))
    devices = [
        (d.name, d.memory // GIB, f"{d.bandwidth / 1e9:.0f}", f"{d.flops / 1e12:.1f}", f"{d.link / 1e9:.1f}", d.source)
        for d in DEVICES.values()
    ]
    console.print()
    columns = ("device", "memory, GiB", "GB/s", "bf16 TFLOP/s", "link, GB/s", "source")
    console.print(table(columns, devices, right=[1, 2, 3, 4]))
    models = [
        (m["name"], m["parameters"], f"{m['weight_bytes'] / 1e9:.1f}", f"{m['kv_bytes'] / 1024:g}") for m in _models()
    ]
    console.print()
    console.print(table(("model", "parameters", "weights, GB", "KV a token, KiB"), models, right=[1, 2, 3]))
    console.print("\na roofline is any of these models on any of these devices: roofline:model=llama-3-8b,device=h100")


def _facts(name: str, model: CostModel) -> dict[str, Any]:
    cost = model.make()
    microseconds = [
        {name: float(ticks * model.tick * 10**6) for name, ticks in coefficients(function)}
        for function in cost.functions
    ]
    return {
        "name": name, "what": model.what, "source": model.source, "tick_seconds": str(model.tick),
        "rounding_error": float(model.rounding), "machine": model.machine and model.machine.model_dump(mode="json"),
        "cost": cost.model_dump(mode="json"), "microseconds": microseconds, "note": model.note,
    }  # fmt: skip


def _show(facts: dict[str, Any], fit: FitReport | None, console: Console) -> None:
    console.print(f"{facts['name']}: {facts['what']} ({facts['source']})")
    if facts["machine"]:
        limits = ("memory", "block", "host_memory", "batch_tokens")
        console.print("machine: " + ", ".join(f"{key} {facts['machine'][key]}" for key in limits))
    error = facts["rounding_error"]
    exact = f"a coefficient is off by at most {error:.1e} of itself" if error else "the coefficients are exact"
    console.print(f"a tick is {facts['tick_seconds']} s; {exact}")
    functions = facts["microseconds"]
    names = list(dict.fromkeys(name for function in functions for name in function))
    rows = [
        (name, *(f"{function[name]:.6g}" if name in function else None for function in functions)) for name in names
    ]
    console.print("a batch takes the largest of these sums, in microseconds:")
    numbered = [f"function {k}" for k in range(1, len(functions) + 1)]
    console.print(table(("feature", *numbered), rows, right=range(1, len(functions) + 1)))
    if facts["note"]:
        console.print(facts["note"], soft_wrap=True)
    if fit is not None:
        console.print(f"\nfitted as {fit.shape}, {100 * fit.share_held_out:g} % of each kind of batch held out:")
        console.print(fit_table(fit))


def fit_table(fit: FitReport) -> AlignedTable:
    """Return the errors of each shape, the transfers and the whole model, by label, as a table."""
    rows = [row for shape, found in fit.shapes.items() for row in _candidate_rows(shape, found)]
    if fit.moves is not None:
        rows += _candidate_rows("transfers", fit.moves)
    whole = fit.by_label | {"all": fit.held_out, "work and transfers": fit.mixed}
    rows += [_error_row(f"{label}, held out", errors) for label, errors in whole.items() if errors is not None]
    columns = ("errors", "batches", "R²", "mean", "P95", "worst", "bias")
    return table(columns, rows, right=range(1, len(columns)))


def _candidate_rows(name: str, found: ShapeFit) -> list[list[object]]:
    knees = "".join(f", knee {knee}" for knee in found.knees)
    rows = [_error_row(f"{name}{knees}, fitted", found.fitted)]
    return rows if found.held_out is None else [*rows, _error_row(f"{name}{knees}, held out", found.held_out)]


def _error_row(name: str, errors: Errors) -> list[object]:
    shares = (errors.mean, errors.p95, errors.worst, errors.bias)
    r2 = None if errors.r2 is None else f"{errors.r2:.4f}"
    return [name, errors.count, r2, *(f"{100 * share:.2f} %" for share in shares)]

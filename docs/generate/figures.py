"""Figures with the commands that measure them, read from ``benchmarks/results`` at each build of the site."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from text import fenced, table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
Part = tuple[str, str, str, Callable[[Any], str]]


def page() -> str:
    """Every figure that there is a result for."""
    lines = [
        "# Figures",
        "Everything on this page was measured by the command above it, on the machine that is named, and is "
        "read from `benchmarks/results` when these pages are built. Another machine gives other figures: run "
        "the command there.",
    ]
    for name, title, said, write in PARTS:
        file = RESULTS / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            command = COMMANDS.get(name, f"python -m benchmarks.{name}")
            lines += [f"## {title}", said, fenced(command), write(found), _machine(found)]
    return "\n\n".join(lines) + "\n"


def _machine(found: Any) -> str:
    """Each machine that something in the result was measured on, with the days."""
    days: dict[str, set[str]] = {}
    for made in _conditions(found):
        gpus = ", ".join(map(str, made["gpus"])) or "no GPU"
        units = " with bf16 units" if made.get("bf16_units") else ""
        machine = f"{made['cpu']}{units}, {made['cpus_allowed']} CPUs, {gpus}, torch {made['torch']}"
        days.setdefault(machine, set()).add(made["taken"][:10])
    if not days:
        return ""
    told = (f"{' to '.join(sorted({min(on), max(on)}))}: {machine}" for machine, on in days.items())
    return f"Measured {'; '.join(told)}."


def _conditions(found: Any) -> Iterator[Any]:
    if isinstance(found, dict):
        if "conditions" in found:
            yield found["conditions"]
        found = list(found.values())
    if isinstance(found, list):
        for inner in found:
            yield from _conditions(inner)


def _placebo(found: Any) -> str:
    columns = ("runs", "reached_a_confirmation", "recommended")
    rows = [(load, *(str(counts[each]) for each in columns)) for load, counts in found["loads"].items()]
    return table(("load", "runs", "reached a confirmation", "recommended"), rows)


def _replayed(found: Any) -> str:
    rows = [
        (
            each["how"], each["load"], str(each["replays"]), str(each["confirmations_completed"]),
            str(each["false_recommendations"]), _share(each["upper_bound_95"]),
        )
        for each in found["decisions"]
    ]  # fmt: skip
    head = ("way", "load", "replays", "confirmations", "false recommendations", "95 % upper bound")
    return table(head, rows)


def _power(found: Any) -> str:
    rows = [
        (
            _share(each["share"]), each["load"], str(each["runs"]), _share(each["detected"]),
            _share(each["recommendable"]), f"{each['median_seconds_to_detection']:.0f} s",
        )
        for each in found["replayed"]["rows"]
        if each["share"] > 0
    ]  # fmt: skip
    head = ("planted", "load", "runs", "detected", "recommendable at 2 %", "median time to detection")
    return table(head, rows)


def _ceilings(found: Any) -> str:
    told = [each for each in found["rows"] if each.get("within") is not None]
    rows = [
        (
            f"[`{each['rule']}`](rules/{each['rule']}.md)", each["ceiling"]["from"],
            _range(each["ceiling"], "share"), _range(each["measured"], "median"),
            "yes" if each["within"] else "no",
        )
        for each in told
    ]  # fmt: skip
    return table(("rule", "ceiling from", "ceiling", "gained by the repair", "within"), rows)


def _numerics(found: Any) -> str:
    return table(("what", "how often"), [(name, str(times)) for name, times in found["summary"].items()])


def _goodput(found: Any) -> str:
    ways = {
        "goodput, noise scale of the task": found["of_the_task"]["all"]["goodput"],
        "the same, with curves that bend at four times as many places": found["of_the_task_dense"]["all"][
            "goodput"
        ],
        "goodput, noise scale of all batch sizes but the best": found["but_for_the_best"]["all"]["goodput"],
        "goodput, noise scale of two batch sizes": found["of_two_batch_sizes"]["all"]["goodput"],
        "throughput": found["of_the_task"]["all"]["throughput"],
        "the largest batch": found["of_the_task"]["all"]["largest"],
    }
    rows = [
        (
            rule,
            _share(of["close"]),
            _share(of["not_surely_farther"]),
            _share(of["median_loss"]),
            _share(of["worst_loss"]),
        )
        for rule, of in ways.items()
    ]
    rows.append(("goodput, noise scale in hindsight", _share(found["in_hindsight"]["all"]), "", "", ""))
    return table(
        ("batch chosen by", "within 5 % of the best", "not farther for sure", "median loss", "worst loss"),
        rows,
    )


def _oracle(found: Any) -> str:
    rows = [
        (
            each["workload"], str(each["cells"]), each["best"], f"{each['best_over_default']:.2f}x",
            each["recommended"], _range(each["over_best"], "ratio"), str(each["evaluations"]),
            f"{each['seconds']:.0f} s",
        )
        for each in found["rows"]
    ]  # fmt: skip
    head = (
        "program", "combinations", "best", "over the default", "recommended", "of the best's speed",
        "evaluations", "took",
    )  # fmt: skip
    return table(head, rows)


def _searches(found: Any) -> str:
    rows = [
        (
            name, _share(each["arrived"]), _share(each["within_12"]), _or_never(each["evaluations_median"]),
            _or_never(each["seconds_median"], " s"),
        )
        for name, each in found["all"].items()
    ]  # fmt: skip
    head = ("search", "arrived", "within 12 evaluations", "median evaluations", "median time")
    return table(head, rows)


def _overhead(found: Any) -> str:
    rows = [
        (
            name, f"{each['step_ms']:.2f} ms", str(each["events_per_step"]),
            f"{each['watching_us']['median']:.0f} us "
            f"({each['watching_us']['low']:.0f} to {each['watching_us']['high']:.0f})",
            _range(each["recording"], "median"),
            _range(each["recording_stated"], "median") if each["recording_stated"] else "nothing",
        )
        for name, each in found["programs"].items()
    ]  # fmt: skip
    head = ("operators", "step", "events a step", "watching, per step", "recording", "recording, as stated")
    return table(head, rows)


def _fixed(found: Any) -> str:
    rows = [
        (name, f"{each['median_s']:.3f} s", f"{each['low_s']:.3f} to {each['high_s']:.3f} s")
        for name, each in found["times"].items()
    ]
    return table(("what", "median", "range"), rows)


def _traces(found: Any) -> str:
    rows = [
        (each["reader"], each["task"], f"{each['events']:,}", f"{each['cpu_s_per_million']:.2f}",
         f"{each['peak_mb']} MB", f"{each['file_mb']} MB")
        for each in found["rows"]
    ]  # fmt: skip
    head = ("reader", "task", "events", "CPU seconds per million events", "peak memory", "file")
    return table(head, rows)


def _network(found: Any) -> str:
    rows = [
        (each["case"], each["rate"], f"{each['step_ms']:.1f} ms", f"{each['predicted']:,.0f}",
         f"{sum(each['sent']) / len(each['sent']):,.0f}")
        for each in found["rows"]
        if each.get("predicted") and each.get("sent")
    ]  # fmt: skip
    return table(("strategy", "network", "step", "bytes predicted", "bytes counted"), rows)


def _or_never(value: float | None, unit: str = "") -> str:
    return "never" if value is None else f"{value:.0f}{unit}"


def _range(of: Any, middle: str) -> str:
    return f"{_share(of[middle])} ({_share(of['low'])} to {_share(of['high'])})"


def _share(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


COMMANDS = {
    "trace_reading": "python -m benchmarks.trace_reading --hta-python /tmp/hta/bin/python",
    "power": "python -m benchmarks.power --parts replayed",
    "placebo": "python -m benchmarks.placebo --runs 10 --budget 40s",
    "overhead": "python benchmarks/overhead.py",
    "ceilings": "python benchmarks/ceilings.py",
    "fixed_cost": "python -m benchmarks.fixed_cost",
    "goodput": "python benchmarks/goodput.py",
    "oracle": "python benchmarks/oracle.py",
    "search": "python benchmarks/search.py",
}
PARTS: tuple[Part, ...] = (
    ("placebo", "Is noise taken for a gain?",
     "Whole runs of `advisor tune` with a knob that does nothing (`placebo`).", _placebo),
    ("placebo_replay", "The same, by replaying recorded steps",
     "Decisions on recorded series of steps in which nothing differs.", _replayed),
    ("power", "How small a gain is seen",
     "A share of each recorded step is planted; a confirmation of at most three minutes has to find it.",
     _power),
    ("ceilings", "Are ceilings honest?",
     "Planted faults are repaired by hand; the gain is compared with what the finding said *at most*.",
     _ceilings),
    ("numerics", "Does the numerics check catch what it should?",
     "Changes that keep the numbers, and planted ones that do not.", _numerics),
    ("oracle", "How close to the best",
     "All combinations of some knobs are measured, the best ones twice; `advisor tune` has to find them.",
     _oracle),
    ("search", "How fast beside other searches",
     "Searches on those measured combinations, replayed, until 95 % of the best speed.", _searches),
    ("goodput", "Which batch size",
     "Published steps to a target quality, replayed: the batch chosen by each rule against the best one.",
     _goodput),
    ("overhead", "What watching and recording cost",
     "The same steps with and without the hooks, and with and without torch.profiler.", _overhead),
    ("fixed_cost", "What a trial costs beside its measurement", "A program that starts at once.", _fixed),
    ("trace_reading", "Reading traces", "Generated traces, beside HolisticTraceAnalysis (hta).", _traces),
    ("slow_network", "Bytes that strategies send",
     "Two ranks over a network of limited rate; bytes are counted at the interface.", _network),
)  # fmt: skip

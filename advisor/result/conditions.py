"""Under which conditions the numbers of a result hold, and what was not checked."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

from advisor.base.redaction import pasted
from advisor.result import attribution, benches, wording
from advisor.result.document import IN_PYTHON, Document, Ratio, ResultData
from advisor.result.wording import shown
from advisor.result.words import STOPPED

MACHINE = {
    "cpu_model": "processor",
    "cpus_allowed": "CPUs allowed",
    "physical_cores": "physical cores",
    "memory_bytes": "memory",
    "shm_bytes": "shared memory free",
    "gpus": "GPUs",
    "platform": "platform",
    "python": "Python",
    "torch": "torch",
    "torch_default_threads": "threads of torch by default",
    "cpu_capability": "vector instructions",
    "bf16_speedup": "bf16 matmul over float32",
    "governor": "frequency governor",
    "numa_nodes": "memory nodes (NUMA)",
    "cpus_online": "CPUs of the machine",
    "swap_bytes": "swap",
    "available_bytes": "memory available at the start",
    "driver": "driver",
    "caches": "caches",
    "disturbed_by": "disturbed by",
    "fingerprint": "fingerprint",
}

LEFT_OUT = 2  # settings that the command named and that were not tried, of which the reason is told
REASON = 160  # characters of it


@dataclass(frozen=True)
class Fact:
    """A name with what is known about it."""

    name: str
    text: str


def reproduce(result: Document) -> str:
    """The command that made this result, as a shell takes it; for a call in Python, that call."""
    if result.command[1:] == [IN_PYTHON]:
        return f"advisor.{result.command[0]}(...)  # the same arguments"
    return shlex.join(["advisor", *(shown(pasted(part)) for part in result.command)])


def quads(value: Ratio) -> str:
    """What a quad and the range behind a ratio are, where it tells of quads; else empty."""
    if not value.quads:
        return ""
    return (
        "A quad is four timed blocks: unchanged, changed, changed, unchanged. The range behind a ratio holds "
        f"the true one with {100 * value.confidence:.4g} % confidence."
    )


def memory_compared(result: ResultData) -> str:
    """What the change in peak memory compares, where it is told beside peaks of single runs."""
    if result.recommendation.memory_ratio is None or result.recommendation.verdict != "change":
        return ""
    return (
        "The change in peak memory compares runs of the same length; a peak in MiB is that of one run, "
        "which is larger the longer it lasts, so two of them may differ by something else."
    )


def ended(result: ResultData) -> str:
    """Why the search ended; of what, and why not of all, where the command named what may be tried."""
    asked = attribution.asked(result)
    why = STOPPED[result.budget.stopped_by]
    if asked and result.budget.stopped_by == "converged":
        why += f" of what --knob allows ({', '.join(dict.fromkeys(map(shown, asked)))})"
    left_out = [
        each
        for each in result.not_tried
        if each.knob in asked and not each.reason.startswith(wording.REJECTED)  # which the verdict tells
    ]
    told = [
        f"{shown(each.knob)}{'' if each.value is None else f'={shown(each.value, 80)}'} was not tried: "
        f"{shown(each.reason, REASON)}"
        for each in left_out[:LEFT_OUT]
    ]
    more = [f"{len(left_out) - LEFT_OUT} more were not"] if len(left_out) > LEFT_OUT else []
    return "; ".join([why, *told, *more])


def took(result: ResultData) -> str:
    """How long the run took, and until what is recommended was confirmed."""
    whole = f"the whole run took {wording.seconds(result.budget.seconds)}"
    told = verdict_after(result)
    return f"confirmed after {told}; {whole}" if told else whole


def verdict_after(result: ResultData) -> str:
    """``18 s and 3 processes``: when what is recommended was confirmed; empty where nothing is."""
    found = result.recommendation
    if found.verdict != "change":
        return ""
    for trial in result.trials:
        if trial.confirmed_s is not None and trial.config == found.config:
            return f"{wording.seconds(trial.confirmed_s)} and {trial.confirmed_launches} processes"
    return ""


def conditions(result: ResultData) -> list[Fact]:
    """Under which conditions the numbers hold."""
    budget, target = result.budget, result.target
    facts = [
        Fact("Command", reproduce(result)),
        Fact("Target", f"{shown(target.path) or '(unnamed)'} ({target.kind})"),
        Fact("Processes started", str(target.launches)),
        Fact("Noise", wording.noise(result)),
        Fact("Left out of what was measured", _excluded_slots(result)),
        Fact("Contended", "yes" if result.noise.contended else "no"),
        Fact("Thread collapse", "yes" if result.noise.thread_collapse else "no"),
        Fact("Objective", result.objective),
        Fact("Smallest gain that is recommended", wording.percent(result.min_gain)),
        Fact("Time spent", wording.seconds(budget.seconds)),
        Fact("Trials", str(budget.trials)),
        Fact("Ended because", ended(result)),
        Fact("Watching added to a step", wording.percent(result.profile.overhead)),
        Fact("Loss of the baseline", _loss(result)),
        Fact("advisor", shown(result.advisor_version)),
    ]
    optional = (
        ("Arguments", shlex.join(shown(part) for part in target.args)),
        ("Digest of the target", shown(target.digest)),
        ("Study", shown(result.study)),
        ("Created", shown(result.created)),
        ("Seed", "" if result.seed is None else str(result.seed)),
        ("Confirmed after", verdict_after(result)),
        *((shown(name), shown(text, 500)) for name, text in benches.said(result.benches)),
    )
    return facts + [Fact(name, text) for name, text in optional if text]


def machine(facts: dict[str, Any]) -> list[Fact]:
    """What the machine and its software are; known facts first, in a fixed order."""
    known = [key for key in MACHINE if key in facts]
    return [
        Fact(MACHINE.get(key, shown(key, 80).replace("_", " ")), _machine_value(key, facts[key]))
        for key in [*known, *(key for key in facts if key not in MACHINE)]
        if facts[key] not in (None, "", [], ())
    ]


def limits(result: ResultData) -> list[str]:
    """What was not checked, in sentences."""
    found = result.recommendation
    changing = found.verdict == "change"
    unknown = [change for change in found.changes if change.contribution is None]
    said = {
        "Times hold for this machine, these versions and these settings.": True,
        "Training was not run to its end: what the model has learnt by then was not compared.": True,
        "Only the settings in the table of trials were measured.": True,
        "The causes of a slow step were not looked for: no rules ran.": not result.findings,
        "The numbers of the changed program were not compared.": changing and found.numerics == "not_checked",
        "Peak memory with the changes was not compared.": changing and found.memory_ratio is None,
        "The share of each change in the whole was not measured apart.": changing and bool(unknown),
        "A change alters what is learnt; its effect on the final accuracy is unknown.": any(
            change.semantics == "training" for change in found.changes
        ),
        "Memory and losses of trials that shared a process cannot be compared.": any(
            trial.process == "shared" for trial in result.trials
        ),
        "The search was interrupted: settings may be missing that would have been tried.": (
            result.budget.stopped_by == "interrupted"
        ),
        "Peak memory of the baseline was not measured.": not result.baseline.peak_bytes,
    }
    return [text for text, applies in said.items() if applies]


def _loss(result: ResultData) -> str:
    loss = result.baseline.loss
    if loss.first is None or loss.last is None:
        return wording.MISSING
    return f"{wording.plain(loss.first)} to {wording.plain(loss.last)} in {loss.steps} steps"


def _excluded_slots(result: ResultData) -> str:
    """``other load 3, throttled 0``: measured slots that were left out, by reason."""
    excluded = result.noise.excluded_slots
    return ", ".join(f"{shown(name).replace('_', ' ')} {count}" for name, count in excluded.items()) or "none"


def _machine_value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes") and isinstance(value, int | float):
        return wording.mib(value)
    if isinstance(value, float):
        return wording.plain(value)
    if key == "gpus" and isinstance(value, list | tuple):
        return "; ".join(_gpu(gpu) for gpu in value)
    if key == "caches" and isinstance(value, list | tuple):
        return ", ".join(f"{shown(level)} {size // 1024} KiB" for level, size in value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(shown(item) for item in value)
    return shown(value, 500) if isinstance(value, str | int) else as_json(value)


def _gpu(gpu: Any) -> str:
    if not isinstance(gpu, dict):
        return as_json(gpu)
    size = gpu.get("memory_bytes")
    memory = f", {wording.mib(size)}" if isinstance(size, int | float) else ""
    return f"{shown(gpu.get('name', 'unnamed'))}{memory}"


def as_json(value: Any) -> str:
    """Any plain value on one line; what JSON does not know as its text."""
    return shown(json.dumps(value, default=str), 300)

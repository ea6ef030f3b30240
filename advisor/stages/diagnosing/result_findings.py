"""Findings and profiles as the values of a result; places below the working folder are relative to it."""

import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from advisor.advice.finding import Finding
from advisor.profiles.derived.roofline import product_reached, reached, reached_by_kind, utilisation
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import KernelCost
from advisor.profiles.facts.replayed import Replays
from advisor.result.document import Ceiling, Interval, Operator, Place, ProfileSummary, Recording
from advisor.result.document import Finding as FindingData
from advisor.result.on_device import Collective, Kernel, Product
from advisor.stages.diagnosing.process_habits import habits_told

PARTS = (
    "input_wait", "transfer", "forward", "backward", "optimizer", "communication", "sync", "logging",
    "evaluation", "save", "other",
)  # fmt: skip
UNUSUAL = ("logging", "evaluation", "save")  # parts that are told only where they take time
DEVICE_PARTS = ("computing", "exposed_communication", "exposed_copies", "idle", "total")
MOST_OPERATORS = 40
LONGEST_NAME = 300  # of a kernel: templates of C++ take thousands of characters
MEMORY = ("parameter", "gradient", "optimizer", "activation", "other", "host_peak", "device_peak",
          "device_reserved")  # fmt: skip
RATES = (
    "memory_sequential", "memory_strided", "memory_random", "storage_read", "h2d_pageable", "h2d_pinned",
    "d2h_pinned", "link",
)  # fmt: skip
REPLAYS = (
    "loader_free", "forward_only", "optimizer_off", "communication_off", "debug_off",
    "evaluation_without_graph", "double_batch", "half_batch",
)  # fmt: skip
OF_RANKS = (
    "compute_ms", "communication_ms", "exposed_ms", "wait_ms", "input_wait_ms", "idle_ms",
    "communication_bytes", "backend", "device_tensors", "memory_bytes", "duplicate_share",
)  # fmt: skip


def as_data(findings: Iterable[Finding]) -> list[FindingData]:
    """Findings as they stand in ``result.json``."""
    return [_finding(finding) for finding in findings]


def profile_summary(profile: Profile, *, summary: str = "", notes: Iterable[str] = ()) -> ProfileSummary:
    """What a report shows of a profile beside the findings."""
    run, window = profile.run, profile.window
    return ProfileSummary(
        phases_ms=phases_ms(profile),
        **_device(profile),
        periodic_s={} if run is None else {"evaluation": run.evaluation_s, "save": run.save_s},
        epoch_s=epoch_s(profile),
        epoch_samples=None if profile.loader is None else profile.loader.dataset_length,
        parameters=sum(one.parameters or 0 for one in profile.optimizers) or None,
        item_cpu_ms=None if profile.loader is None else profile.loader.item_cpu_ms,
        item_read_bytes=None if profile.loader is None else profile.loader.item_read_bytes,
        overhead=profile.watching or 0.0,
        steps=0 if profile.phases is None else profile.phases.steps,
        summary=summary,
        ranks=[_rank(rank) for rank in profile.ranks or ()],
        collectives=_collectives(profile),
        recording=None
        if window is None
        else Recording(
            steps=window.steps,
            events_per_step=window.events_per_step,
            overhead=window.overhead,
            residual=window.residual,
            notes=list(window.notes),
        ),
        operators=[] if window is None else _operators(profile),
        memory_bytes=_memory(profile),
        replays=replays(profile.replays),
        replays_refused=dict(profile.replays.refused),
        rates=_rates(profile),
        rates_from="" if profile.rates is None else profile.rates.source,
        roofline=roofline(profile),
        notes=[*habits_told(profile), *notes],
    )


def _device(profile: Profile) -> dict[str, Any]:
    """The step as the device spent it, where one was recorded."""
    device = None if profile.window is None else profile.window.device
    if device is None or device.time is None:
        return {}
    spent = {part: float(getattr(device.time, f"{part}_ms")) for part in DEVICE_PARTS}
    return {
        "device_ms": spent,
        "idle_ms": dict(device.time.idle),
        "kernels_ms": dict(device.kernels_ms),
        "products": [
            Product(**asdict(each), roofline=product_reached(each, profile.rates)) for each in device.products
        ],
        "kernels": [_kernel(each, profile.rates) for each in device.heaviest],
        "roofline_by_kind": reached_by_kind(device.heaviest, profile.rates),
        "mfu": utilisation(profile),
    }


def _kernel(kernel: KernelCost, rates: Rates | None) -> Kernel:
    share = reached(kernel, rates)
    return Kernel(
        name=kernel.name[:LONGEST_NAME],
        kind=kernel.kind,
        calls=kernel.calls,
        us=kernel.us,
        op=kernel.op,
        location=None if kernel.location is None else _near(str(kernel.location)),
        dtype=kernel.dtype,
        tflops=kernel.flops_per_s and kernel.flops_per_s / 1e12,
        gb_per_s=kernel.bytes_per_s and kernel.bytes_per_s / 1e9,
        roofline=None if share is None else share[0],
        bound=None if share is None else share[1],
    )


def _collectives(profile: Profile) -> list[Collective]:
    link = None if profile.rates is None else profile.rates.link
    return [
        Collective(
            kind=each.kind,
            calls=each.calls,
            ms=each.ms,
            bytes=each.bytes,
            ranks=each.ranks,
            wait_ms=each.wait_ms,
            bus_gb_per_s=each.bus_bytes_per_s and each.bus_bytes_per_s / 1e9,
            of_link=each.bus_bytes_per_s / link if each.bus_bytes_per_s and link else None,
            overlapped=each.overlapped,
            overlapped_in_turn=list(each.overlapped_in_turn),
        )
        for each in profile.collectives[:MOST_OPERATORS]
    ]


def _rank(rank: RankFacts) -> dict[str, Any]:
    """One process of a run: its step, its phases, and of the other facts those that there are."""
    facts = {name: value for name in OF_RANKS if (value := getattr(rank, name))}
    return {"rank": rank.rank, "step_ms": rank.step_ms, **dict(rank.phases_ms), **facts}


def phases_ms(profile: Profile) -> dict[str, float]:
    """Milliseconds of one step by part; parts that never occur are left out but for the usual ones."""
    phases = profile.phases
    if phases is None:
        return {}
    times = {part: float(getattr(phases, f"{part}_ms")) for part in PARTS}
    return {part: spent for part, spent in times.items() if spent or part not in UNUSUAL}


def epoch_s(profile: Profile, step_s: float | None = None) -> float | None:
    """Seconds of one pass over the training data, where its length is known."""
    loader, run = profile.loader, profile.run
    if step_s is None and profile.phases is not None:
        step_s = profile.phases.step_ms / 1000
    if loader is None or loader.dataset_length is None or run is None or not run.samples_per_step:
        return None
    return None if step_s is None else loader.dataset_length / run.samples_per_step * step_s


def replays(found: Replays) -> dict[str, Interval]:
    """The measured replays by name."""
    shares = {name: getattr(found, name) for name in REPLAYS}
    return {
        name: Interval(estimate=share.share, low=share.low, high=share.high)
        for name, share in shares.items()
        if share is not None
    }


def roofline(profile: Profile) -> dict[str, float]:
    """Share of the limits that the compute part of the step reached.

    ``flops`` is the work of all operators with a known formula over what the fastest matmul of the dtype
    with most of it could do in that time; ``memory`` their bytes over what copying in order moves
    (Williams et al., Roofline, CACM 2009). An upper part of both is what a step could never exceed.
    """
    window, rates = profile.window, profile.rates
    if window is None or rates is None or window.compute_ms <= 0:
        return {}
    seconds = window.compute_ms / 1000
    work: dict[str, float] = {}
    for op in window.ops:
        if op.flops and op.dtype:
            dtype = op.arithmetic or op.dtype
            work[dtype] = work.get(dtype, 0.0) + op.flops * op.calls
    reached = {}
    least = sum(done / rate for dtype, done in work.items() if (rate := rates.flops(dtype)))
    if work and least:
        reached["flops"] = least / seconds
    moved = sum((op.bytes or 0.0) * op.calls for op in window.ops)
    if moved and rates.memory_sequential:
        reached["memory"] = moved / rates.memory_sequential / seconds
    return reached


def _finding(finding: Finding) -> FindingData:
    place, ceiling, measured = finding.location, finding.ceiling, finding.measured
    return FindingData(
        rule=finding.rule,
        kind=finding.kind.value,
        state=finding.state.value,
        severity=None if finding.severity is None else finding.severity.value,
        title=_near(finding.title),
        location=None
        if place is None
        else Place(file=_near(place.file), line=place.line, function=place.function),
        ceiling=None
        if ceiling is None
        else Ceiling(
            share=ceiling.share, low=ceiling.low, high=ceiling.high, of=ceiling.of, **{"from": ceiling.source}
        ),
        explains=finding.explains,
        evidence=_plain(finding.evidence),
        advice=_near(finding.advice),
        knobs=list(finding.knobs),
        outcome=finding.outcome.value,
        measured=None
        if measured is None
        else Interval(estimate=measured[0], low=measured[1], high=measured[2]),
        why=finding.why,
    )


def _plain(value: Any) -> Any:
    """Evidence as JSON can hold it."""
    if isinstance(value, dict):
        return {_near(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if isinstance(value, int | bool) or value is None else _near(str(value))


def _near(text: str) -> str:
    """Paths below the working folder as the user would type them there."""
    folder = os.path.join(os.getcwd(), "")
    if folder == os.sep or folder not in text:
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(folder)}", "", text)


def _operators(profile: Profile) -> list[Operator]:
    assert profile.window is not None
    most = sorted(profile.window.ops, key=lambda op: -op.self_ms)[:MOST_OPERATORS]
    return [
        Operator(
            name=op.name,
            phase=op.phase,
            calls=op.calls,
            self_ms=op.self_ms,
            dtype=op.dtype,
            shapes=[list(shape) for shape in op.shapes],
            location=None if op.location is None else _near(str(op.location)),
        )
        for op in most
    ]


def _memory(profile: Profile) -> dict[str, int]:
    memory = profile.memory
    if memory is None:
        return {}
    found = {name: getattr(memory, f"{name}_bytes") for name in MEMORY}
    return {name: int(size) for name, size in found.items() if size is not None}


def _rates(profile: Profile) -> dict[str, float]:
    rates = profile.rates
    if rates is None:
        return {}
    found: dict[str, float | None] = {f"matmul_{name}_flops": rate for name, rate in rates.matmul}
    for name in RATES:
        found[f"{name}_bytes_per_s"] = getattr(rates, name)
    found["dispatch_us"] = rates.dispatch_us
    return {name: value for name, value in found.items() if value is not None}

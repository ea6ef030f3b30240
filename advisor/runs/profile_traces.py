"""Findings from traces of torch.profiler made elsewhere: what a trace alone can bear."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.advice.advise import advise, summary
from advisor.base.errors import UsageError, clean
from advisor.profiles.facts.data_sheets import data_sheet
from advisor.profiles.facts.machine import Gpu, Machine
from advisor.profiles.facts.observed import StepSeries
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.rates import Rates
from advisor.profiles.facts.recorded import Collective
from advisor.profiles.traces.calls import Calls, calls_of
from advisor.profiles.traces.device.collectives import collectives
from advisor.profiles.traces.device.device_timeline import sync_points_of_calls
from advisor.profiles.traces.device.rank_times import ranks_of_calls
from advisor.profiles.traces.ops import optimizers_of, phases_of_calls, window_of_calls
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.steps import Steps
from advisor.profiles.traces.trace import DEVICE, Trace
from advisor.report.files import write_report
from advisor.result.document import Budget, ProfileData
from advisor.result.header import Target, header_of_run
from advisor.rules import RULES
from advisor.stages.diagnosing import result_findings as data
from advisor.stages.diagnosing.watched import distribution


def profile_traces(paths: Sequence[Path], command: tuple[str, ...], out: Path | None = None) -> ProfileData:
    """Diagnose a run from the trace files of its ranks, one file each.

    Args:
        paths: Chrome JSON as torch.profiler exports it, gzipped or not.
        command: What the user typed, for the report.
        out: Folder of the report; none is written without.

    Raises:
        UsageError: A file is missing or no trace, or two files hold the same rank.
    """
    began = time.monotonic()
    twice = next((path for at, path in enumerate(paths) if path in paths[:at]), None)
    if twice is not None:
        raise UsageError(f"{clean(str(twice))} is given twice", hint="give one file per rank")
    traces = [read_trace(path) for path in paths]
    _refuse_equal_ranks(paths, traces)
    first = min(traces, key=lambda trace: trace.rank or 0)
    found = profile_of(traces, first)
    findings = advise(found, RULES)
    names = [path.name for path in paths]
    notes = [f"{name}: {note}" for name, trace in zip(names, traces, strict=True) for note in trace.notes]
    result = ProfileData(
        **header_of_run(
            command,
            Target(path=", ".join(str(path) for path in paths), kind="trace"),
            {"fingerprint": "", **_recorded(first), "gpus": [gpu.name for gpu in found.machine.gpus]},
        ),
        profile=data.profile_summary(found, summary=summary(findings, found), notes=notes),
        findings=data.as_data(findings),
        budget=Budget(seconds=time.monotonic() - began, trials=0, stopped_by="converged"),
    )
    if out is not None:
        write_report(result, out)
    return result


def profile_of(traces: Sequence[Trace], first: Trace) -> Profile:
    """What the traces show; the machine is that of the recording as far as it names it."""
    gpus = gpus_of(first)
    on_device = bool(first.of(*DEVICE).any())
    has_device = bool(gpus) or bool(first.of("cuda_runtime", "cuda_driver").any())
    every = {id(trace): calls_of(trace) for trace in traces}
    calls = every[id(first)]
    return Profile(
        machine=Machine(
            cpus_allowed=0, physical_cores=0, memory_bytes=0, shm_bytes=0, cuda=has_device, gpus=gpus
        ),
        target_kind="trace",
        device="cuda" if on_device else "cpu",
        phases=None if calls is None else phases_of_calls(calls),
        window=window_of_calls(first, calls),
        rates=_rates(gpus) if on_device else None,
        series=None if calls is None else _series(calls.steps),
        optimizers=() if calls is None else optimizers_of(calls),
        syncs=None if calls is None or not on_device else sync_points_of_calls(calls),
        ranks=ranks_of_calls([each for each in every.values() if each is not None]),
        collectives=_collectives(calls, list(every.values())),
    )


def gpus_of(trace: Trace) -> tuple[Gpu, ...]:
    """The devices of the machine that the trace was recorded on, as far as it names them."""
    listed = trace.info.get("deviceProperties")
    return tuple(
        _gpu(each) for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)
    )


def _rates(gpus: Sequence[Gpu]) -> Rates | None:
    """What the devices can do by their data sheet; ``None`` where they differ or none is known."""
    sheets = {data_sheet(gpu) for gpu in gpus}
    sheet = sheets.pop() if len(sheets) == 1 else None
    return None if sheet is None else sheet.rates()


def _collectives(first: Calls | None, every: Sequence[Calls | None]) -> tuple[Collective, ...]:
    others = [each for each in every if each is not None and each is not first]
    return () if first is None else collectives([first, *others])


def _series(steps: Steps) -> StepSeries | None:
    """Distribution of the steps, where each is known by itself."""
    return distribution(((steps.end_us - steps.begin_us) / 1000).tolist()) if steps.exact else None


def _refuse_equal_ranks(paths: Sequence[Path], traces: Sequence[Trace]) -> None:
    seen: dict[int, Path] = {}
    for path, trace in zip(paths, traces, strict=True):
        if trace.rank is None or len(traces) == 1:
            continue
        if trace.rank in seen:
            raise UsageError(
                f"{clean(str(seen[trace.rank]))} and {clean(str(path))} both hold rank {trace.rank}",
                hint="give one file per rank",
            )
        seen[trace.rank] = path


def _gpu(properties: dict[str, Any]) -> Gpu:
    return Gpu(
        name=str(properties.get("name", "GPU")),
        uuid="",
        memory_bytes=_whole(properties, "totalGlobalMem"),
        capability=(_whole(properties, "computeMajor"), _whole(properties, "computeMinor")),
    )


def _whole(properties: dict[str, Any], name: str) -> int:
    """A number of a file that anything may stand in; 0 where it is none."""
    found = properties.get(name)
    return found if type(found) is int else 0


def _recorded(trace: Trace) -> dict[str, Any]:
    """What the file says of where it was made."""
    wanted = ("schemaVersion", "cuda_runtime_version", "cuda_driver_version", "trace_id", "displayTimeUnit")
    return {name: trace.info[name] for name in wanted if isinstance(trace.info.get(name), int | str)}

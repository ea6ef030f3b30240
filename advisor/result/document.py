"""What ``tune`` found: the contents of ``result.json``, as values with a schema.

The schema in ``result.schema.json`` is generated from here (``python -m advisor.result.document``); a test
holds the two together. Ratios are candidate over baseline, larger is better; no NaN or Infinity is
ever written.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from advisor.base.atomic_file import write_atomically
from advisor.result.artefact import Artefact
from advisor.result.benches import BenchUse
from advisor.result.header import Finite as Finite
from advisor.result.header import Header, Record, Target
from advisor.result.latency import Latency, SlowRequests
from advisor.result.on_device import Collective, Kernel, Product
from advisor.tuners.search.record import Process, Stage, State
from advisor.tuners.supervision.failures import Cause

IN_PYTHON = "(in Python)"  # stands in ``command`` for the arguments of a call
MOST_LOSSES = 50  # of one run: enough to draw them

Value = int | str
Losses = Annotated[list[Finite | None], Field(max_length=MOST_LOSSES)]


class Interval(Record):
    """A measured quantity with the bounds of its confidence interval."""

    estimate: Finite
    low: Finite
    high: Finite


class Ratio(Interval):
    """Candidate over baseline, larger is better; ``quads`` ABBA quads over ``instances`` processes."""

    quads: int = 0
    instances: int = 0
    confidence: Finite = 0.99


class OverProcesses(Interval):
    """A quantity of several processes, with their bias in its interval."""

    processes: int
    confidence: Finite = 0.99


class Rate(Interval):
    """Work per second."""

    unit: Literal["samples/s", "steps/s"] = "samples/s"


class Loss(Record):
    """Losses of the first steps; ``None`` when none could be seen."""

    first: Finite | None = None
    last: Finite | None = None
    steps: int = 0


class Noise(Record):
    """The baseline compared with itself."""

    aa_ratio: Ratio
    smallest_detectable: Finite
    contended: bool = False
    thread_collapse: bool = False
    never_stable: int = 0
    excluded_slots: dict[str, int] = {}


class Baseline(Record):
    """The user's own setting, measured; ``losses`` as in a trial, where a trial has them.

    ``step_ms`` is of its first process, ``over_processes_ms`` of that and those of the confirmation.
    ``peak_bytes`` holds all that was seen, such as evaluation, ``steps_peak_bytes`` the measured steps alone.
    """

    config: dict[str, Value]
    step_ms: Interval
    over_processes_ms: OverProcesses | None = None
    throughput: Rate
    peak_bytes: int = 0
    steps_peak_bytes: int = 0
    loss: Loss = Loss()
    losses: Losses = []
    latency: Latency | None = None


class Operator(Record):
    """One operator of the recorded window; times per step."""

    name: str
    phase: str
    calls: Finite
    self_ms: Finite
    dtype: str | None = None
    shapes: list[list[int]] = []
    location: str | None = None


class Recording(Record):
    """The profiler's window; ``overhead`` is the share that it added to a step."""

    steps: int
    events_per_step: Finite
    overhead: Finite | None = None
    residual: Finite = 0.0
    notes: list[str] = []


class ProfileSummary(Record):
    """Where the time of one baseline step goes.

    ``overhead`` is the share that watching adds to a step, ``phases_after_ms`` the same step under the
    recommendation. ``memory_bytes`` is by category. ``replays`` are shares of the step by what was left
    out, ``rates`` limits of the machine, measured unless ``rates_from`` names a data sheet, ``roofline`` the
    share of them that the step reached.
    Where there is a device, ``device_ms`` is a step as it spent it, from its first event to the end of its
    last (``computing``, ``exposed_communication``, ``exposed_copies``, ``idle``, ``total``), and ``idle_ms``
    its idle time by what it waited for. ``kernels_ms`` is the time of its kernels by what they do,
    ``products`` are the largest matrix products, ``kernels`` the kernels that take most time.
    ``roofline_by_kind`` is the share of the limits that those of a kind reach, ``mfu`` the share of the step
    that its arithmetic would take at the peak of its types. ``collectives`` are exchanges between ranks.
    ``epoch_samples`` is the length of the training data, ``parameters`` how many an optimizer updates;
    ``item_cpu_ms`` is the CPU time that making one sample takes, ``item_read_bytes`` what is read for it.
    """

    phases_ms: dict[str, Finite]
    device_ms: dict[str, Finite] = {}
    idle_ms: dict[str, Finite] = {}
    kernels_ms: dict[str, Finite] = {}
    products: list[Product] = []
    kernels: list[Kernel] = []
    roofline_by_kind: dict[str, Finite] = {}
    mfu: Finite | None = None
    collectives: list[Collective] = []
    periodic_s: dict[str, Finite] = {}
    epoch_s: Finite | None = None
    epoch_samples: int | None = None
    parameters: int | None = None
    item_cpu_ms: Finite | None = None
    item_read_bytes: int | None = None
    overhead: Finite = 0.0
    steps: int = 0
    summary: str = ""
    phases_after_ms: dict[str, Finite] | None = None
    ranks: list[dict[str, Any]] = []
    recording: Recording | None = None
    operators: list[Operator] = []
    memory_bytes: dict[str, int] = {}
    replays: dict[str, Interval] = {}
    replays_refused: dict[str, str] = {}
    replays_after: dict[str, Interval] = {}
    rates: dict[str, Finite] = {}
    rates_from: str = ""
    roofline: dict[str, Finite] = {}
    notes: list[str] = []


class Place(Record):
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""


class Ceiling(Record):
    """The share of the step that could go at most, and where that figure comes from."""

    share: Finite
    low: Finite
    high: Finite
    source: Literal["replay", "timeline", "model"] = Field(alias="from")
    of: Literal["step", "run"] = "step"


class Finding(Record):
    """What one rule said about the run."""

    rule: str
    kind: Literal["waste", "headroom", "risk"]
    state: Literal["opportunity", "diagnostic", "passed", "not_applicable", "error"]
    severity: Literal["high", "medium", "low"] | None = None
    title: str = ""
    location: Place | None = None
    ceiling: Ceiling | None = None
    explains: str | None = None
    evidence: dict[str, Any] = {}
    advice: str = ""
    knobs: list[str] = []
    outcome: Literal["confirmed", "no_effect", "harmful", "not_tested"] = "not_tested"
    measured: Interval | None = None
    why: str = ""


class RankUse(Record):
    """Workers that trained together.

    ``bytes_per_step`` is what each of them sends per update; ``report`` what else the strategy told.
    """

    count: int
    bytes_per_step: Finite | None = None
    report: dict[str, Any] = {}


class Trial(Record):
    """One configuration measured. ``number`` 0 is the baseline.

    ``ranks`` is ``None`` for a process alone. ``losses`` are kept where several ranks trained: evenly spread
    over ``loss.steps``, the first and the last among them, ``None`` for one that was not finite.
    ``confirmed_s`` seconds after the run began, and after ``confirmed_launches`` processes, it was confirmed;
    what followed, such as a longer run, did not change that.
    """

    number: int
    config: dict[str, Value]
    process: Process = "own"
    stage: Stage = "screen"
    state: State = "complete"
    cause: Cause | None = None
    message: str = ""
    marks: list[str] = []
    applied: list[str] = []
    refused: dict[str, str] = {}
    step_ms: Interval | None = None
    throughput: Rate | None = None
    goodput: Interval | None = None
    peak_bytes: int | None = None
    loss: Loss | None = None
    losses: Losses = []
    ranks: RankUse | None = None
    against_baseline: Ratio | None = None
    startup_s: Finite | None = None
    compile_s: Finite | None = None
    confirmed_s: Finite | None = None
    confirmed_launches: int | None = None
    log: str | None = None


class Adopted(Record):
    """One change of the recommendation, and how to write it."""

    knob: str
    from_: Value = Field(alias="from")
    to: Value
    semantics: Literal["exact", "rounding", "precision", "training"]
    contribution: Ratio | None = None
    numerics: Literal["identical", "within_noise", "drifts", "not_checked"] = "not_checked"
    snippet: str = ""
    environment: dict[str, str] = {}


class Proposal(Record):
    """Something that helped in the measurement but is not recommended by itself, and why.

    ``beside`` are settings of other knobs with which it was measured, and without which it is another change.
    """

    knob: str
    to: Value
    reason: str
    measured: Ratio | None = None
    snippet: str = ""
    beside: dict[str, Value] = {}


class Recommendation(Record):
    """The verdict. Under ``keep`` there are no changes and ``config`` is the baseline's.

    ``lasted_steps`` were run in one process to see memory grow, by ``growth_bytes_per_step``. ``time_ratio``
    is the gain by wall time where ``speedup`` is of something else, such as memory; ``None`` if unknown.
    ``latency`` is of the candidate that was confirmed last, ``slow_requests`` how its tail compares.
    """

    verdict: Literal["change", "keep"]
    config: dict[str, Value]
    speedup: Ratio
    time_ratio: Ratio | None = None
    memory_ratio: Interval | None = None
    numerics: Literal["identical", "within_noise", "drifts", "not_checked"] = "not_checked"
    numerics_reason: str = ""
    break_even_steps: int | None = None
    compile_cold_s: Finite | None = None
    compile_warm_s: Finite | None = None
    cpu_speedup: Ratio | None = None
    lasted_steps: int | None = None
    growth_bytes_per_step: Finite | None = None
    latency: Latency | None = None
    slow_requests: SlowRequests | None = None
    reason: str = ""
    changes: list[Adopted] = []
    proposals: list[Proposal] = []


class PlannedRun(Record):
    """The training that is planned: as it is, and (``changed``) with the recommendation."""

    steps: int | None = None
    epoch_s: Finite | None = None
    seconds: Finite | None = None
    cost: Finite | None = None
    price_per_hour: Finite | None = None
    changed_steps: int | None = None
    changed_epoch_s: Interval | None = None
    changed_seconds: Interval | None = None
    changed_cost: Finite | None = None


class BatchSizes(Record):
    """What is known of other batch sizes: the fastest, the best by goodput, the largest that fits.

    Where a gradient is lost in its noise, of ``noise_scale`` no more is known than ``noise_scale_at_least``.
    """

    present: int
    fastest: int | None = None
    fastest_ratio: Ratio | None = None
    best_goodput: int | None = None
    noise_scale: Interval | None = None
    noise_scale_at_least: Finite | None = None
    largest_safe: int | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    limited_by: str | None = None
    said: str = ""


class Untried(Record):
    """A knob or value that was not tried, and why."""

    knob: str
    value: Value | None = None
    reason: str


class Budget(Record):
    """What was spent and what ended the search."""

    seconds: Finite
    trials: int
    stopped_by: Literal["budget", "trials", "converged", "failures", "interrupted"]


class Document(Header):
    """What every ``result.json`` holds."""

    command: list[str]
    created: str = ""
    target: Target
    machine: dict[str, Any]
    seed: int | None = None
    profile: ProfileSummary
    findings: list[Finding] = []
    warnings: list[str] = []
    budget: Budget


class ProfileData(Document):
    """What ``profile`` found: the same fields, without trials and recommendation."""

    baseline: Baseline | None = None
    trials: list[Trial] = []
    recommendation: None = None
    not_tried: list[Untried] = []


class ResultData(Document):
    """What ``tune`` found: the whole of ``result.json``."""

    study: str = ""
    objective: Literal["goodput", "throughput", "memory", "latency", "requests", "energy"] = "goodput"
    min_gain: Finite = 0.02
    noise: Noise
    baseline: Baseline
    trials: list[Trial] = []
    recommendation: Recommendation
    planned: PlannedRun | None = None
    batch: BatchSizes | None = None
    artefacts: list[Artefact] = []
    not_tried: list[Untried] = []
    benches: list[BenchUse] = []


def schema() -> dict[str, Any]:
    """The JSON Schema of ``result.json``, of ``tune`` or of ``profile``."""
    either: TypeAdapter[ResultData | ProfileData] = TypeAdapter(ResultData | ProfileData)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **either.json_schema()}


if __name__ == "__main__":
    text = json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    write_atomically(Path(__file__).parents[1] / "result.schema.json", text)

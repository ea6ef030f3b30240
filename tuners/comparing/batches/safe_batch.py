"""The largest batch that a run can hold: the present one, doubled until it fails, then one step back."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.surroundings.memory import free_host_bytes
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.constraints import predicted_memory_fits
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import RESOURCE_CAUSES, Cause, Failure, TrialFailed

STEPS = 5  # of a probe: from the second on the optimizer's state is there
VARYING_STEPS = 32  # where batches differ in shape
MOST_STEPS = 200  # to reach an evaluation
PROBE_S = 20.0  # of steps in one probe; the deadline of a trial is a minute at least
HOST_SHARE = 0.6  # of free memory, that a probe on the host may come to need
MOST_BATCH = 2**20

LimitedBy = Literal["memory", "max_batch", "dataset", "caution", "budget", "failure"]


@dataclass(frozen=True)
class Probe:
    """A batch that was really run for a few steps.

    Attributes:
        peak_bytes: ``None`` where it failed, with the ``cause``.
        steps: Updates that it made.
    """

    batch_size: int
    peak_bytes: int | None
    cause: Cause | None = None
    steps: int = 0


@dataclass(frozen=True)
class SafeBatch:
    """The largest batch that was really run within the limit.

    Attributes:
        batch_size: It was run, with optimizer state allocated.
        peak_bytes: Its peak; not less than the baseline's own where that evaluated, or shapes vary.
        limit_bytes: What may be used.
        limited_by: ``caution``: on the host none is run that may need more than 60 % of free memory;
            ``failure``: a larger batch failed for another reason than memory or time, or cannot be set; the
            others as they are called.
        probes: All of them, in their order.
    """

    batch_size: int
    peak_bytes: int
    limit_bytes: int
    limited_by: LimitedBy
    probes: tuple[Probe, ...]

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        ran = (
            f"a batch of {self.batch_size} ran with a peak of {self.peak_bytes / 2**20:.0f} of "
            f"{self.limit_bytes / 2**20:.0f} MiB"
        )
        cause = self.probes[-1].cause
        why = {
            "memory": "twice as many samples are too much for memory",
            "max_batch": "--max-batch limits it",
            "dataset": "the dataset has no more samples",
            "caution": f"no larger one is run that may need more than {HOST_SHARE:.0%} of free memory",
            "budget": "time ended before a larger one could be run",
            "failure": f"a larger one failed: {cause}" if cause else "a larger one cannot be set",
        }[self.limited_by]
        return f"{ran}; {why}"


def largest_safe_batch(
    arena: Arena,
    space: Space,
    profile: Profile,
    limit_bytes: int,
    max_batch: int | None,
    deadline: float,
    say: Callable[[str], None],
    *,
    base: Mapping[str, Value] | None = None,
    free_bytes: Callable[[], int] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SafeBatch | None:
    """Run the present batch, and twice as much each time until one does not fit.

    Args:
        arena: Starts the runs.
        space: Holds ``batch_size``; without it nothing is run.
        profile: Of the unchanged program.
        limit_bytes: What may be used, headroom taken off (``memory_limit``).
        max_batch: Largest batch allowed.
        deadline: Monotonic time after which no further run is begun.
        say: Is told what is run.
        base: Settings of everything else; the program's own where not given.
        free_bytes: Free memory of the host now; read from the system where not given.
        clock: Monotonic.

    Returns:
        ``None`` where the batch size cannot be set, or no batch ran within the limit.

    Raises:
        Interrupted: The user asked to stop.
    """
    present = space.present.get("batch_size")
    if not isinstance(present, int):
        return None
    on_host = not profile.device.startswith("cuda")
    bounds: list[tuple[int, LimitedBy]] = [(MOST_BATCH, "dataset")]
    if profile.loader is not None and profile.loader.dataset_length:
        bounds.append((profile.loader.dataset_length, "dataset"))
    if max_batch is not None:
        bounds.append((max_batch, "max_batch"))
    probing = _Probing(
        arena=arena,
        space=space,
        profile=profile,
        base={**space.present, **(base or {})},
        limit=limit_bytes,
        allowed=HOST_SHARE * (free_bytes or free_host_bytes)() if on_host else math.inf,
        ceiling=min(bounds),
        deadline=deadline,
        say=say,
        clock=clock,
    )
    return probing.run(present)


@dataclass
class _Probing:
    """One search for the largest batch.

    Attributes:
        allowed: What a probe may come to need, beside ``limit``.
        ceiling: The largest batch that may be asked for, and what sets it.
    """

    arena: Arena
    space: Space
    profile: Profile
    base: dict[str, Value]
    limit: int
    allowed: float
    ceiling: tuple[int, LimitedBy]
    deadline: float
    say: Callable[[str], None]
    clock: Callable[[], float]
    probes: list[Probe] = field(default_factory=list)
    _cost_s: float = 0.0

    def run(self, present: int) -> SafeBatch | None:
        """All probes, and what they say."""
        most, limited_by = self.ceiling
        batch, fits = min(present, most), None
        while (ended := self._ended(batch, present, fits)) is None:
            fits = self.probes[-1]
            if batch == most:
                ended = limited_by
                break
            batch = min(2 * batch, most)
        if fits is None or fits.peak_bytes is None:
            return None
        return SafeBatch(fits.batch_size, fits.peak_bytes, self.limit, ended, tuple(self.probes))

    def _ended(self, batch: int, present: int, fits: Probe | None) -> LimitedBy | None:
        """Run one batch; what ends the doubling, ``None`` where it stayed within the limit."""
        began = self.clock()
        steps_s = self._steps(batch) * self.arena.step_s * batch / present
        if fits is not None and (steps_s > PROBE_S or began + 2 * self._cost_s > self.deadline):
            return "budget"
        if fits is None and began > self.deadline:
            return "budget"
        if fits is not None and batch / fits.batch_size * (fits.peak_bytes or 0) > self.allowed:
            return "caution"
        config = self._config(batch)
        asked = {name: config[name] for name in self.space.present}
        reason = self.space.check(asked)
        if reason is not None and reason != predicted_memory_fits(asked, self.space.profile):  # known better
            return "failure"
        self.say(f"running a batch of {batch} for its memory")
        try:
            probe = self._probe(config, batch)
        except TrialFailed as failed:
            self.probes.append(Probe(batch, None, failed.failure.cause))
            if failed.failure.cause not in RESOURCE_CAUSES:
                return "failure"
            return "budget" if failed.failure.cause == "timeout" else "memory"
        self._cost_s = self.clock() - began
        self.probes.append(probe)
        return "memory" if (probe.peak_bytes or 0) > self.limit else None

    def _config(self, batch: int) -> dict[str, Value]:
        config = {**self.base, "batch_size": batch}
        if "lr_scaling" in self.space.present:
            config["lr_scaling"] = self.space.complete({"batch_size": batch})["lr_scaling"]
        return config

    def _probe(self, config: Mapping[str, Value], batch: int) -> Probe:
        limit_s = min(PROBE_S, max(1.0, (self.deadline - self.clock()) / 2))
        evaluated = False
        session = self.arena.start(config, 0)
        try:
            slot = session.window(self._steps(batch), drop=0, limit_s=limit_s)
            evaluated = "evaluation" in dict(slot.flags)
            outcome = session.stop()
        except SessionEnded as ended:
            outcome = ended.outcome
        finally:
            session.kill()
        if outcome.steps < 2:
            raise TrialFailed(Failure("user_error", "the program ended before two steps"))
        if outcome.unanswered or "batch_size" in outcome.refused:
            raise TrialFailed(Failure("not_applied", "the batch size could not be set"))
        peak = max(outcome.highest_bytes, self._at_least(evaluated))
        return Probe(batch, peak, steps=outcome.steps)

    def _steps(self, batch: int) -> int:
        """Steps that show the peak: the state, every optimizer, most shapes, and an evaluation if near."""
        steps = max(STEPS, self.arena.period)
        loader, run = self.profile.loader, self.profile.run
        if loader is not None and loader.shapes_vary:
            steps = max(steps, VARYING_STEPS)
        if run is not None and run.evaluations:
            epoch = (loader.dataset_length or 0) / batch if loader is not None else 0.0
            every = run.evaluation_every or epoch
            steps = max(steps, min(MOST_STEPS, math.ceil(every) + 1))
        return steps

    def _at_least(self, evaluated: bool) -> int:
        """The peak of the long run, where a short one may not show it: shapes vary, or it evaluated."""
        memory, loader, run = self.profile.memory, self.profile.loader, self.profile.run
        varying = loader is not None and loader.shapes_vary
        unseen = run is not None and run.evaluations and not evaluated
        if memory is None or not (varying or unseen):
            return 0
        on_device = self.profile.device.startswith("cuda")
        return (memory.device_peak_bytes if on_device else memory.host_peak_bytes) or 0

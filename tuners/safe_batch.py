"""The largest batch that a run can hold: predicted first, then really run for a few steps.

Running out of memory is monotone: what failed for lack of memory or time bounds everything larger.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from advisor.profiles.profile import Profile
from advisor.tuners.constraints import predicted_memory_fits
from advisor.tuners.duel import Arena
from advisor.tuners.failures import RESOURCE_CAUSES, Cause, Failure, TrialFailed
from advisor.tuners.knob import Value
from advisor.tuners.memory_model import HEADROOM, MOST_BATCH, MemoryModel, memory_model
from advisor.tuners.session import SessionEnded
from advisor.tuners.space import Space

STEPS = 5  # of a probe: from the second on the optimizer's state is there
VARYING_STEPS = 32  # where batches differ in shape
MOST_STEPS = 200  # to reach an evaluation
PROBE_S = 20.0  # of steps in one probe; the deadline of a trial is a minute at least
HOST_SHARE = 0.6  # of free memory, that a probe on the host may be predicted to reach
WORTH_RUNNING = 1.1  # times the largest batch so far
CALIBRATING = 4  # times the present batch, where only a bound of what a sample needs is known
MULTIPLE = 8

LimitedBy = Literal["memory", "max_batch", "dataset", "caution", "budget", "failure"]


@dataclass(frozen=True)
class Probe:
    """A batch that was really run for a few steps.

    Attributes:
        peak_bytes: With the batches that wait for it; ``None`` where it failed, with the ``cause``.
        steps: Updates that it made.
        evaluated: An evaluation was among them.
    """

    batch_size: int
    peak_bytes: int | None
    cause: Cause | None = None
    steps: int = 0
    evaluated: bool = False


@dataclass(frozen=True)
class SafeBatch:
    """The largest batch that was really run within the limit, and what is predicted beyond it.

    Attributes:
        batch_size: It was run, with optimizer state allocated.
        peak_bytes: Its peak: raised as the long baseline run exceeded a short one where shapes vary, and
            not less than the baseline's own where that evaluated.
        predicted_batch: The largest that the model predicts to fit, after all probes.
        limit_bytes: What may be used.
        limited_by: ``caution``: on the host no probe goes beyond 60 % of free memory; ``failure``: a larger
            batch failed for another reason than memory or time; the others as they are called.
        probes: All of them, in their order.
    """

    batch_size: int
    peak_bytes: int
    predicted_batch: int
    limit_bytes: int
    limited_by: LimitedBy
    probes: tuple[Probe, ...]

    @property
    def is_prediction(self) -> bool:
        """Whether larger batches are expected to fit that were not run."""
        return self.limited_by in ("caution", "budget") and self.predicted_batch > self.batch_size

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        ran = (
            f"a batch of {self.batch_size} ran with a peak of {self.peak_bytes / 2**20:.0f} of "
            f"{self.limit_bytes / 2**20:.0f} MiB"
        )
        failed = next((probe for probe in reversed(self.probes) if probe.cause is not None), None)
        why = {
            "memory": "memory limits it",
            "max_batch": "--max-batch limits it",
            "dataset": "the dataset has no more samples",
            "caution": f"no probe goes beyond {HOST_SHARE:.0%} of the machine's free memory",
            "budget": "time ended before a larger one could be run",
            "failure": f"a larger one failed: {failed.cause if failed else 'unknown'}",
        }[self.limited_by]
        told = f"; up to {self.predicted_batch} is predicted to fit" if self.is_prediction else ""
        return f"{ran}; {why}{told}"


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
    """Run the present batch, the predicted largest, once more upwards, and once back where that failed.

    On the host, where only a bound of what a sample needs may be known, a few times the batch comes first.

    Args:
        arena: Starts the runs.
        space: Holds ``batch_size``; without it nothing is run.
        profile: What the model is built from.
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
    allowed = int(HOST_SHARE * (free_bytes or free_host_bytes)()) if on_host else limit_bytes
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
        allowed=allowed,
        ceiling=min(bounds),
        model=memory_model(profile) or MemoryModel(present, on_host=on_host),
        deadline=deadline,
        say=say,
        clock=clock,
    )
    return probing.run(present)


def free_host_bytes() -> int:
    """What a new process can have of the memory of this machine and its cgroup."""
    import psutil

    from advisor.profiles.hooks.memory import host_limit

    limit, used_share = host_limit()
    return min(int(limit * (1 - used_share)), int(psutil.virtual_memory().available))


@dataclass
class _Probing:
    """One search for the largest batch.

    Attributes:
        allowed: What a probe may be predicted to reach, beside ``limit``.
        ceiling: The largest batch that may be asked for, and what sets it.
        too_much: The smallest batch that failed or went beyond the limit.
        best: The largest that ran within it.
        stretch: By how much a long run with all shapes exceeded a short one at the same batch.
    """

    arena: Arena
    space: Space
    profile: Profile
    base: dict[str, Value]
    limit: int
    allowed: int
    ceiling: tuple[int, LimitedBy]
    model: MemoryModel
    deadline: float
    say: Callable[[str], None]
    clock: Callable[[], float]
    probes: list[Probe] = field(default_factory=list)
    best: Probe | None = None
    too_much: int | None = None
    ended: LimitedBy | None = None
    stretch: float | None = None
    _cost_s: float = 0.0

    def run(self, present: int) -> SafeBatch | None:
        """All probes, and what they say."""
        if self._ran(min(present, self.ceiling[0])):
            self._grow()
        if self.too_much is not None and self.ended is None:
            self._go_back()
        return self._result()

    def _grow(self) -> None:
        """To what the model predicts, and once more by what that run has shown."""
        if self.model.on_host and not self.model.activations_seen and not self._calibrate():
            return
        for aim in ((1 - HEADROOM) * self.limit, float(self.limit)):
            target = self._target(aim)
            if not self._is_worth_running(target) or not self._ran(target):
                return

    def _calibrate(self) -> bool:
        """A few times the batch tells what a sample needs, as long as the bound of that is no danger."""
        assert self.best is not None  # the present batch was run
        bound = self.model.largest_batch(self.allowed, self.base)
        target = min(CALIBRATING * self.best.batch_size, bound, self.ceiling[0], self._affordable())
        return not self._is_worth_running(target) or self._ran(target)

    def _go_back(self) -> None:
        """Half of the way back from what was too much, or less if the model says so."""
        assert self.too_much is not None  # asked by the only caller
        fits = self.best.batch_size if self.best is not None else 0
        halfway = _tidy((fits + self.too_much) // 2)
        target = min(halfway, self._target((1 - HEADROOM) * self.limit))
        if target <= fits and self.best is None:
            target = halfway
        if self._is_worth_running(target):
            self._ran(target)

    def _is_worth_running(self, target: int) -> bool:
        if self.best is None:
            return target >= 1
        at_ceiling = target == self.ceiling[0] > self.best.batch_size
        return at_ceiling or target >= WORTH_RUNNING * self.best.batch_size

    def _target(self, aim: float) -> int:
        """The largest batch predicted to stay below ``aim`` that may be run and takes little enough time."""
        target = self._predicted(min(aim, self.allowed))
        affordable = self._affordable()
        if affordable < target:
            self.ended = "budget" if not self._is_worth_running(affordable) else self.ended
            target = _tidy(affordable)
        return target

    def _predicted(self, aim: float) -> int:
        """The largest batch predicted to stay below ``aim``, and below what was too much."""
        need = aim / (self.stretch or 1.0)
        largest = self.model.largest_batch(need, self.base)
        if self.too_much is not None:
            largest = min(largest, self.too_much - 1)
        return self.ceiling[0] if largest >= self.ceiling[0] else _tidy(largest)

    def _affordable(self) -> int:
        """The batch whose steps take as long as a probe may, were time to grow with the batch."""
        left = min(PROBE_S, (self.deadline - self.clock()) / 2)
        steps = max(STEPS, self.arena.period) + 1
        return min(MOST_BATCH, int(self.model.batch * left / (steps * self.arena.step_s)))

    def _ran(self, batch: int) -> bool:
        """Run one batch for a few steps; whether it stayed within the limit."""
        began = self.clock()
        if self.ended is not None or began + 2 * self._cost_s > self.deadline:
            self.ended = self.ended or "budget"
            return False
        config = self._config(batch)
        asked = {name: config[name] for name in self.space.present}
        reason = self.space.check(asked)
        if reason is not None and reason != predicted_memory_fits(asked, self.space.profile):  # known better
            self.too_much = batch
            return False
        self.say(f"running a batch of {batch} for its memory")
        try:
            outcome, evaluated = self._outcome(config, batch)
        except TrialFailed as failed:
            self._fail(batch, failed.failure)
            return False
        self._cost_s = self.clock() - began
        return self._learn(batch, config, outcome, evaluated)

    def _config(self, batch: int) -> dict[str, Value]:
        config = {**self.base, "batch_size": batch}
        if "lr_scaling" in self.space.present:
            config["lr_scaling"] = self.space.complete({"batch_size": batch})["lr_scaling"]
        return config

    def _outcome(self, config: Mapping[str, Value], batch: int) -> tuple[dict[str, Any], bool]:
        limit_s = min(PROBE_S, max(1.0, (self.deadline - self.clock()) / 2))
        session = self.arena.start(config, 0)
        try:
            slot = session.window(self._steps(batch), drop=0, limit_s=limit_s)
            evaluated = "evaluation" in dict(slot.flags)
            outcome = session.stop()
        except SessionEnded as ended:
            outcome, evaluated = ended.outcome, False
        finally:
            session.kill()
        if not outcome["steps"]:
            raise TrialFailed(Failure("user_error", "the program ended before one step"))
        if outcome["unanswered"] or "batch_size" in outcome["refused"]:
            raise TrialFailed(Failure("not_applied", "the batch size could not be set"))
        return outcome, evaluated

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

    def _fail(self, batch: int, failure: Failure) -> None:
        self.probes.append(Probe(batch, None, failure.cause))
        self.too_much = batch
        if failure.cause not in RESOURCE_CAUSES:
            self.ended = "failure"
        elif failure.cause == "timeout":
            self.ended = "budget"

    def _learn(
        self, batch: int, config: Mapping[str, Value], outcome: Mapping[str, Any], evaluated: bool
    ) -> bool:
        steps = int(outcome["steps"])
        peak = int(outcome["device_peak_bytes"] or outcome["peak_bytes"])
        if steps < 2:  # it ended before a step that had the optimizer's state
            peak += self.model.optimizer_bytes
        self.model = self.model.calibrated(batch, peak, config)
        if self.stretch is None:
            self.stretch = self._shapes_beyond(peak) if batch == self.model.batch else 1.0
        needed = max(round(peak * self.stretch), 0 if evaluated else self._evaluation_bytes())
        if self.model.on_host:
            needed += self.model.queue_bytes(config)
        probe = Probe(batch, needed, steps=steps, evaluated=evaluated)
        self.probes.append(probe)
        if needed > self.limit:
            self.too_much = batch
            return False
        if self.best is None or batch > self.best.batch_size:
            self.best = probe
        return True

    def _own_peak(self) -> int:
        """Of the long run that the profile was made from."""
        memory = self.profile.memory
        if memory is None:
            return 0
        return (memory.host_peak_bytes if self.model.on_host else memory.device_peak_bytes) or 0

    def _shapes_beyond(self, peak: int) -> float:
        varying = self.profile.loader is not None and self.profile.loader.shapes_vary
        return max(1.0, self._own_peak() / peak) if varying else 1.0

    def _evaluation_bytes(self) -> int:
        """What an evaluation needed that the profile has seen: it does not grow with the training batch."""
        run = self.profile.run
        return self._own_peak() if run is not None and run.evaluations else 0

    def _result(self) -> SafeBatch | None:
        if self.best is None:
            return None
        batch, predicted = self.best.batch_size, self._predicted(self.limit)
        predicted = batch if self.ended == "failure" else max(batch, predicted)
        return SafeBatch(
            batch, self.best.peak_bytes or 0, predicted, self.limit, self._limited_by(predicted),
            tuple(self.probes),
        )  # fmt: skip

    def _limited_by(self, predicted: int) -> LimitedBy:
        assert self.best is not None  # asked by the only caller
        if self.best.batch_size == self.ceiling[0]:
            return self.ceiling[1]
        if self.ended is not None:
            return self.ended
        if self.too_much is None and self.allowed < self.limit and predicted > self.best.batch_size:
            return "caution"
        return "memory"


def _tidy(batch: int) -> int:
    """A multiple of 8 where that is near."""
    return batch - batch % MULTIPLE if batch >= 2 * MULTIPLE else batch

"""The first run of the target, unchanged: what it is, what a step costs, and how noisy the machine is."""

import math
from dataclasses import dataclass, field, replace

from advisor.base.errors import TargetError
from advisor.base.settings import Settings
from advisor.profiles.derived.epochs import epochs_of
from advisor.profiles.derived.step_phases import phases_of
from advisor.profiles.facts.profile import Profile
from advisor.stages.baseline_steps import FLOOR, check_budget, measured_unchanged, spread_of
from advisor.stages.target_failures import NEEDED_STEPS, target_error, too_short
from advisor.stages.thread_collapse import (
    COLLAPSE,
    CONTENDED_SHARE,
    ThreadsCollapsed,
    collapsed,
    contended,
    may_be_fewer,
    room_beside,
    waited,
)
from advisor.tuners.comparing.duel import DEVICE_SHARE, MEMORY_SHARE, Arena
from advisor.tuners.comparing.excluded import other_cpus
from advisor.tuners.comparing.measure import Estimate, beside_itself, median, smallest_detectable
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running, end
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.fixed import check_applied
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.messages import Facts, Slot, SlotMeasured, TrialOutcome

PLANNED_QUADS = 24  # of a confirmation; for the smallest difference that can be told
SHORT_DROP = 3  # first steps of a short program, not measured
SHORT_LAUNCHES = 6  # of a short program, to compare it with itself; two at least
IDLE = 0.3  # CPUs in use beside whole ones that count as none: such as two threads in a first step alone
SHORT_SHARE = 0.5  # of the budget, after which no two more are launched


@dataclass
class Baseline:
    """The user's own setting, measured.

    Attributes:
        aa: Log ratio of the baseline over itself.
        detectable: Smallest relative difference that a confirmation of usual length would show.
        slots: All clean slots, for step time and throughput.
        max_steps: How many steps one launch has, when the program came to its end.
        applied: What of ``--fix`` took effect.
        refused: What of it did not, with the reason.
        start_cpus: That its process used until its first step, on average; ``None`` where that is not known.
        steps_peak_bytes: Peak memory after these steps; ``profile`` may have seen more, such as evaluation.
    """

    profile: Profile
    session: Running | None
    slots: list[Slot]
    aa: Estimate
    aa_sigma: float
    detectable: float
    contended: bool
    thread_collapse: bool
    losses: tuple[float, ...] = ()
    steps_peak_bytes: int = 0
    max_steps: int | None = None
    seconds: float = 0.0
    startup_s: float = 0.0
    start_cpus: float | None = None
    files: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def step_s(self) -> float:
        """Seconds of a step: median of the means of slots, in which steps of several kinds count whole."""
        return median([slot.mean_s for slot in self.slots])

    @property
    def sampled(self) -> bool:
        """Whether its work is counted in samples, else in steps."""
        return bool(self.profile.run and self.profile.run.samples_per_step)

    @property
    def losses_finite(self) -> bool:
        """Whether no loss that was seen is NaN or infinite."""
        return all(map(math.isfinite, self.losses))

    def teach(self, arena: Arena) -> None:
        """Tell an arena what comparisons of this program need."""
        arena.training_dataset = self.profile.loader.dataset if self.profile.loader else None
        arena.max_steps, arena.startup_s = self.max_steps, self.startup_s
        arena.sigma = max(self.aa_sigma, FLOOR)
        arena.queue_depth = queue_depth
        arena.epochs = epochs_of(self.profile)
        arena.threads = self.profile.run.num_threads if self.profile.run else 1
        others = other_cpus(self.slots)
        arena.at_once = start_at_once(self.profile, others)
        if self.start_cpus is not None:
            arena.start_at_once = start_at_once(self.profile, others, math.ceil(self.start_cpus - IDLE))
        loader = self.profile.loader
        arena.waits = loader is not None and loader.fixed is None and arena.launcher.target.kind != "exec"
        memory = self.profile.memory
        if memory is not None:
            free = self.profile.machine.memory_bytes
            taken = memory.device_reserved_bytes or memory.device_peak_bytes

            def fit(count: int) -> bool:
                there = count * memory.host_peak_bytes < MEMORY_SHARE * free
                total = memory.device_total_bytes
                return there and not (taken and total and count * taken >= DEVICE_SHARE * total)

            arena.two_fit, arena.three_fit = fit(2), fit(3)

    @property
    def disturbance(self) -> str | None:
        """What to warn of where other load disturbed it."""
        if self.thread_collapse:
            return COLLAPSE
        return (
            "other processes use this machine; small differences cannot be told" if self.contended else None
        )

    def end(self) -> None:
        """End its process, if that still runs."""
        session, self.session = self.session, None
        if session is not None:
            end(session)

    def as_record(self, config: Configuration) -> TrialRecord:
        """Trial 0."""
        return TrialRecord(
            0,
            config,
            "baseline",
            slots=self.slots,
            against_baseline=self.aa,
            applied=self.applied,
            refused=self.refused,
            startup_s=self.startup_s,
        )


def start_at_once(profile: Profile, other_cpus: float = 0.0, threads: int | None = None) -> bool:
    """Whether two processes of the program may start at the same time.

    Where their threads share CPUs, with each other or with other load, both take many times as long
    (measurement.md, section 1).

    Args:
        profile: Of the program.
        other_cpus: That other processes use.
        threads: Of each, that compute meanwhile; by default as many as train.
    """
    if threads is None:
        threads = profile.run.num_threads if profile.run is not None else 1
    room = profile.machine.cpus_allowed - (other_cpus if other_cpus > CONTENDED_SHARE else 0.0)
    return profile.device.startswith("cuda") or 2 * threads <= room


def run_baseline(
    launcher: Launcher, arena: Arena, settings: Settings, *, unless_collapsed: bool = False
) -> Baseline:
    """Run the target with nothing changed but ``--fix``; its process stays alive for live knobs.

    Args:
        launcher: Starts the process.
        arena: Learns step time and period here.
        settings: Budget, steps and fixed knobs.
        unless_collapsed: Give up as soon as threads collapse that can be fewer.

    Raises:
        TargetError: It fails, has no training step, or ends too early.
        ThreadsCollapsed: As asked.
        UsageError: The budget is below one baseline run, or a fixed knob does not act.
    """
    began = arena.clock()
    session = launcher.start(0, settings.fixed, {})
    try:
        startup_s = session.first_step()
        warm = arena.warm_up(session, settings.budget_s / 5)
    except TrialFailed as failed:
        raise target_error(failed.failure, session) from None
    except SessionEnded as ended:
        return _short(launcher, arena, settings, ended.outcome, began)
    step_s = warm[-1].mean_s
    check_budget(settings, startup_s, step_s, arena.clock() - began)
    try:
        if unless_collapsed:
            seen = replace(
                session.facts().profile, phases=phases_of(session.last.wall_ns, session.last.phases_ns)
            )
            _refuse_collapse(session, warm[-1:], seen, settings, startup_s)
        baseline = _measure(launcher, arena, settings, session, startup_s, step_s, began)
        if unless_collapsed:
            _refuse_collapse(session, baseline.slots, baseline.profile, settings, startup_s)
        return baseline
    except TrialFailed as failed:
        raise target_error(failed.failure, session) from None
    except SessionEnded as ended:
        return _short(launcher, arena, settings, ended.outcome, began)


def _refuse_collapse(
    session: Running, slots: list[Slot], profile: Profile, settings: Settings, startup_s: float
) -> None:
    """End a process whose threads collapsed, if they can be fewer; it may have come to its end by itself.

    Raises:
        ThreadsCollapsed: They can.
    """
    threads = profile.run.num_threads if profile.run is not None else 1
    if collapsed(slots, threads, waited(profile.phases)) and may_be_fewer(settings, profile, startup_s):
        end(session)
        raise ThreadsCollapsed(median([slot.mean_s for slot in slots]), room_beside(slots, threads))


def _measure(
    launcher: Launcher,
    arena: Arena,
    settings: Settings,
    session: Running,
    startup_s: float,
    step_s: float,
    began: float,
) -> Baseline:
    launcher.limits.step_s = step_s
    launcher.limits.start_s = max(60.0, 5 * startup_s)
    arena.step_s, arena.fixed_steps = step_s, settings.steps
    arena.period = _period(session.facts())
    measured = measured_unchanged(arena, session, settings, startup_s, began)
    facts = measured.facts
    if settings.target.kind in ("workload", "objects"):
        _check_first_loss(facts.losses)
    max_steps = None if session.alive or session.outcome is None else session.outcome.steps
    baseline = _baseline(
        replace(facts.profile, phases=measured.phases),
        session.last,
        session,
        measured.slots,
        measured.compared,
        measured.log_ratios,
        settings,
        max_steps=max_steps,
        startup_s=startup_s,
        seconds=arena.clock() - began,
    )
    baseline.losses, baseline.start_cpus = facts.losses, session.start_cpus
    return baseline


def _period(facts: Facts) -> int:
    """Steps after which the order of its optimizers repeats."""
    return max(1, facts.profile.run.period if facts.profile.run is not None else 1)


def _check_first_loss(losses: tuple[float, ...]) -> None:
    """Refuse a workload that cannot be trained from its first step on.

    Raises:
        TargetError: Its loss is NaN or infinite. Later ones may become so, which is a finding.
    """
    if losses and not math.isfinite(losses[0]):
        raise TargetError(
            f"ValueError: step must return one finite scalar that needs grad, got {losses[0]}",
            where="the loss of the first step",
            hint="`torch.autograd.set_detect_anomaly(True)` names the operation that made it",
            code="non_finite",
        )


def _short(
    launcher: Launcher, arena: Arena, settings: Settings, outcome: TrialOutcome, began: float
) -> Baseline:
    """A program that ends before one process gives enough: launched several times, one window each."""
    total, launch_s = outcome.steps, arena.clock() - began
    needed = NEEDED_STEPS if settings.steps is None else settings.steps + SHORT_DROP + 1
    if total < needed:
        raise too_short(outcome, settings)
    steps = settings.steps or (total - SHORT_DROP - 1)
    check_budget(settings, launch_s, 0.0, 3 * launch_s)
    slots: list[Slot] = []
    while len(slots) < SHORT_LAUNCHES:
        late = arena.clock() - began + 2 * launch_s > SHORT_SHARE * settings.budget_s
        if late and slots and len(slots) % 2 == 0:  # two by two they tell the noise
            break
        session = launcher.start(0, settings.fixed, {})
        try:
            slots.append(session.window(steps, drop=SHORT_DROP))
            message, startup_s = session.last, session.startup_s or 0.0
            profile = session.facts().profile
            session.stop()
        except TrialFailed as failed:
            raise target_error(failed.failure, session) from None
        except SessionEnded as ended:
            raise too_short(ended.outcome, settings) from None
        finally:
            session.kill()
    arena.max_steps, arena.fixed_steps = total, settings.steps
    arena.step_s = median([slot.mean_s for slot in slots])
    launcher.limits.step_s = arena.step_s
    pairs = zip(slots[::2], slots[1::2], strict=True)
    ratios = [math.log(a.seconds_per_unit / b.seconds_per_unit) for a, b in pairs]
    profile = replace(profile, phases=phases_of(message.wall_ns, message.phases_ns))
    return _baseline(
        profile,
        message,
        None,
        slots,
        slots,
        ratios,
        settings,
        max_steps=total,
        startup_s=startup_s,
        seconds=arena.clock() - began,
    )


def _baseline(
    profile: Profile,
    message: SlotMeasured,
    session: Running | None,
    slots: list[Slot],
    loaded: list[Slot],
    ratios: list[float],
    settings: Settings,
    *,
    max_steps: int | None,
    startup_s: float,
    seconds: float,
) -> Baseline:
    check_applied(KNOBS, settings.fixed, message.refused, profile)
    own = profile.run.num_threads if profile.run else 1
    threads = int(settings.fixed.get("num_threads", own))
    if profile.run is not None:
        profile = replace(profile, run=replace(profile.run, launch_steps=max_steps))
    sigma = spread_of(ratios)
    return Baseline(
        profile=profile,
        session=session if session is not None and session.alive else None,
        slots=slots,
        aa=beside_itself(ratios, settings.confidence),
        aa_sigma=sigma,
        detectable=max(FLOOR, smallest_detectable(sigma, PLANNED_QUADS)),
        contended=contended(loaded),
        thread_collapse=collapsed(loaded, threads, waited(profile.phases)),
        steps_peak_bytes=profile.peak_bytes,
        max_steps=max_steps,
        seconds=seconds,
        startup_s=startup_s,
        applied=list(message.applied),
        refused=message.refused,
    )

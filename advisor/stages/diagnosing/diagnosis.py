"""One run looked at closely: watched, inspected, recorded, replayed; what comes out is a full profile.

The process may be one that runs already, and goes on afterwards for whoever takes it over: what looks closely
is taken off again, but weights are no longer those of the training, nor is its peak of memory the program's.
Stages that the time does not allow are left out, and the rules that need them abstain.
"""

import contextlib
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.base.errors import AdvisorError
from advisor.base.settings import Progress
from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.profiles.facts.recorded import Window
from advisor.profiles.facts.replayed import Share
from advisor.profiles.hooks.recorder import Plan, plan
from advisor.profiles.traces.device.rank_times import ranks_of
from advisor.profiles.traces.event_cost import Parts
from advisor.profiles.traces.reading import read_trace
from advisor.profiles.traces.shaping import joined
from advisor.profiles.traces.trace import Trace
from advisor.stages.diagnosing.rank_facts import with_facts
from advisor.stages.diagnosing.watched import (
    after,
    host_of,
    inspected,
    joined_observations,
    phases_of_recorded,
    phases_of_watched,
    series_of,
    unrecorded,
)
from advisor.stages.look_plan import USUAL, LookPlan, look_plan
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.measure import slot_steps
from advisor.tuners.comparing.replay import Replaying, normal_step_s
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import Interrupted, SessionEnded
from advisor.tuners.supervision.failures import Failure, OutOfTime, TrialFailed
from advisor.tuners.trial.look_messages import (
    AttentionTimes,
    GraphShares,
    Inspect,
    Inspected,
    MeasuredRates,
    MeasureRates,
    Observe,
    Observed,
    Probe,
    Probed,
    Record,
    Recorded,
    TimeAttention,
    TimeGraph,
)
from advisor.tuners.trial.messages import TrialOutcome

EPOCH_ENDS = 3
EPOCH_SHARE = 0.25  # of the time left then, at most, to wait for an epoch's end
STAGES = {
    "_inspect": "looked at closely",
    "_record": "recorded",
    "_rate": "compared with what the machine can do",
    "_try_one_thread": "tried with one thread",
    "_replay": "replayed",
}
INSPECT_S, RATES_S = 10.0, 4.0
SAMPLED_SHARE = 0.1  # of all steps of a launch, in which hot lines alone are met
AGREEING = 0.05  # difference of the normal steps before and after a window, in logarithms
BRIEF_WARMUP = 3  # steps of a program that is started again
LAUNCHES = 8  # of a program that ends before the diagnosis does
LOW_CPU = 0.6  # of the threads: then one thread alone is tried
REPLAYED_AGAIN = ("loader_free", "forward_only", "optimizer_off", "communication_off")


@dataclass
class Diagnosis:
    """Looks at one configuration of a program.

    Attributes:
        start: Starts a fresh process of it.
        arena: Knows how to warm up.
        deadline: Monotonic time at which no further stage begins.
        steps: Clean steps to watch at least.
        planned_steps: Of the user's real training, where known.
        notes: What could not be done, and why.
        interrupted: The user asked to stop; what was learnt before is kept.
        session: The process that was started last; given, one that runs already, warmed up, is looked at.
        earlier: Seconds of clean steps that this process has made before, with nothing changed.
        phases: The parts of those.
        wall_ns: Of the steps that were watched, disturbed ones among them.
        watched: Called once it was watched: what comes then may be left out.
    """

    start: Callable[[], Running]
    arena: Arena
    deadline: float
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    steps: int | None = None
    planned_steps: int | None = None
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    traces: list[Path] = field(default_factory=list)
    session: Running | None = None
    earlier: Sequence[float] = ()
    phases: StepPhases | None = None
    wall_ns: Sequence[int] = ()
    watched: Callable[[], None] = lambda: None
    _step_s: float | None = None
    _launches: int = 0
    _flags: Container[int] = ()
    _told: list[Profile] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.session is not None and self.session.alive:
            self._launches, self._step_s = 1, self.arena.step_s

    def run(self) -> Profile:
        """The whole diagnosis; its process is ended.

        Raises:
            TrialFailed: The program fails before it could be watched.
            SessionEnded: It ends before that.
        """
        try:
            return self.look()
        finally:
            self.end()

    def look(self) -> Profile:
        """As ``run``, but the process that was used last goes on, paused at a step border.

        Raises:
            TrialFailed: The program fails before it could be watched.
            SessionEnded: It ends before that.
        """
        profile = self._watch()
        self.watched()
        for stage in (self._inspect, self._record, self._rate, self._try_one_thread, self._replay):
            if self.clock() > self.deadline:
                self.notes.append("the time did not allow every stage of the diagnosis")
                break
            try:
                profile = self._through(stage, profile)
            except SessionEnded:
                self.notes.append(f"the program ended before it could be {STAGES[stage.__name__]}")
            except TrialFailed as failed:
                self.notes.append(f"it could not be {STAGES[stage.__name__]}: {failed.failure.message}")
            except Interrupted:
                self.interrupted = True
                self.notes.append(f"interrupted before it was {STAGES[stage.__name__]}")
                break
        return profile

    def end(self) -> None:
        """End the process that was used last."""
        if self.session is not None:
            self.session.kill()

    @property
    def _plan(self) -> LookPlan:
        return look_plan(self._step_s or self.arena.step_s, earlier=len(self.earlier))

    def _through(self, stage: Callable[[Profile], Profile], profile: Profile) -> Profile:
        """One stage; where the program ends meanwhile, once more from its start."""
        launches = self._launches
        try:
            return stage(profile)
        except SessionEnded:
            if self._launches > launches:
                raise
            return stage(profile)

    def again(self) -> Profile:
        """The short form for another configuration: phases and the main replays; its process is ended."""
        try:
            return self._replay(self._watch(), REPLAYED_AGAIN)
        finally:
            self.end()

    def _live(self) -> Running:
        """A warm process at a step border; a program that came to its end is started again."""
        if self.session is not None and self.session.alive:
            return self.session
        if self.session is not None:
            self.session.kill()
        if self._launches >= LAUNCHES:
            raise SessionEnded(TrialOutcome("ended"))
        self._launches += 1
        self.session = self.start()
        self.session.first_step()
        if self._launches == 1:
            warm = self.arena.warm_up(self.session, max(1.0, (self.deadline - self.clock()) / 5))
            self._step_s = warm[-1].mean_s
        else:
            self.session.slot(BRIEF_WARMUP, drop=0)
        return self.session

    def _watch(self) -> Profile:
        self.progress.say("watching it run")
        session, first = self._first()
        messages = [first]
        facts = session.facts()
        until = self.clock() + EPOCH_SHARE * (self.deadline - self.clock())
        with contextlib.suppress(SessionEnded, OutOfTime):  # what was watched until then counts
            while self._plan.epochs and session.alive and self.clock() < until and not _saw_epochs(messages):
                messages.append(self._observe(session, 1.0, 1))
            if len(messages) > 1:
                facts = session.facts()
        self._told = [each.profile for each in facts.ranks]
        base = facts.profile
        watched = joined_observations(messages)
        self.wall_ns, self._flags = watched.wall_ns, watched.flags
        host = replace(base.host or HostFacts(), **host_of(watched))
        if base.run is not None:
            planned = base.run.steps_total if self.planned_steps is None else self.planned_steps
            run = replace(base.run, steps_total=planned, launch_steps=self.arena.max_steps)
            base = replace(base, run=run)
        phases, known = phases_of_watched(watched), self.phases
        if known is not None and known.steps > phases.steps:
            phases = known
        return replace(base, phases=phases, series=series_of(after(self.earlier, watched)), host=host)

    def _first(self) -> tuple[Running, Observed]:
        """Enough clean steps; a program that ends before is run again and watched from its start."""
        steps, seconds = self.steps or USUAL, 0.0
        try:
            session = self._live()
            if self.steps is None:
                steps, seconds = self._plan.watched, self._plan.watched_s
            return session, self._observe(session, seconds, steps)
        except SessionEnded as ended:
            there = ended.outcome.steps
            if self.steps is not None or self._launches > 1 or there < steps:
                raise
        session = self._live()
        return session, self._observe(session, 0.0, min(steps, there - BRIEF_WARMUP - 2))

    def _observe(self, session: Running, seconds: float, steps: int) -> Observed:
        limit = max(2.0, (self.deadline - self.clock()) / 2)
        return session.ask(Observe(seconds, steps, limit), Observed, limit + 120.0)

    def _inspect(self, profile: Profile) -> Profile:
        session = self._live()
        session.ask(Probe(), Probed, 60.0)
        limit = min(INSPECT_S, max(1.0, (self.deadline - self.clock()) / 6))
        sampled = self._plan.sampled
        if self.arena.max_steps is not None:
            sampled = min(sampled, int(self.arena.max_steps * SAMPLED_SHARE))
        session.ask(Inspect(self._plan.inspected, limit, sampled=sampled), Inspected, limit + 120.0)
        return inspected(profile, session.facts().profile)

    def _record(self, profile: Profile) -> Profile:
        if (reason := unrecorded(profile)) is not None:
            self.notes.append(reason)
            return profile
        self.progress.say("recording a few steps")
        session = self._live()
        period = profile.run.period if profile.run is not None else 1
        pilot = self._window(session, period, shapes=False, places=False)
        events = len(_written(Path(pilot.path))) / max(1, len(pilot.wall_ns))
        timed, *others = plan(events, period, most=self._plan.recorded)
        recorded, clean_step_ms = self._timed(session, timed, period, pilot)
        trace = self._trace(recorded)
        ranks = ranks_of([trace, *map(self._trace, recorded.ranks[1:])])
        ranks = with_facts(ranks, profile, self._told)
        beside = [
            self._trace(self._window(session, each.steps, shapes=True, places=each.places)) for each in others
        ]
        watched = profile.phases
        parts = None if watched is None else Parts(watched, phases_of_recorded(recorded))
        window = joined(trace, beside, clean_step_ms, parts)
        return replace(profile, window=window, syncs=syncs_of(profile, trace), ranks=ranks or profile.ranks)

    def _timed(self, session: Running, timed: Plan, period: int, pilot: Recorded) -> tuple[Recorded, float]:
        """A recorded window, and milliseconds of a normal step on both sides of it.

        Other load may come and go: of several windows, the one whose sides agree best. The pilot is the first
        of them where steps have so many events that no more is recorded at once.
        """
        found: list[tuple[float, Recorded, float]] = []
        before = normal_step_s(self.wall_ns, self._flags)
        around = slot_steps(before, period)
        piloted = timed.steps == len(pilot.wall_ns)
        if not piloted:
            before = usual_s(session.slot(around, drop=1).step_s)
        for number in range(self._plan.windows if self.arena.max_steps is None else 1):
            recorded = pilot
            if number or not piloted:
                recorded = self._window(session, timed.steps, shapes=timed.shapes, places=False)
            after = usual_s(session.slot(around, drop=1).step_s)
            found.append((abs(math.log(after / before)), recorded, 500 * (before + after)))
            if found[-1][0] < AGREEING or self.clock() > self.deadline:
                break
            before = after
        _, recorded, clean_step_ms = min(found, key=lambda each: each[0])
        return recorded, clean_step_ms

    def _trace(self, message: Recorded) -> Trace:
        path = Path(message.path)
        trace = _written(path)
        self.traces.append(path)
        return trace

    def _window(self, session: Running, steps: int, *, shapes: bool, places: bool) -> Recorded:
        path = session.folder / f"trace-{len(list(session.folder.glob('trace-*')))}.json"
        limit = 60.0 + 20.0 * steps * max(1.0, self._step_s or self.arena.step_s)
        return session.ask(Record(str(path), steps, shapes, places), Recorded, limit)

    def _rate(self, profile: Profile) -> Profile:
        self.progress.say("measuring what the machine can do")
        answer = self._live().ask(MeasureRates(RATES_S), MeasuredRates, 60.0)
        profile = replace(profile, rates=answer.rates)
        return replace(profile, window=self._fused(profile))

    def _fused(self, profile: Profile) -> Window | None:
        """The window with what a fused attention would take in place of each that is written out."""
        window = profile.window
        if window is None or not window.attentions:
            return window
        written = window.attentions
        shapes, dtypes = tuple(each.shape for each in written), tuple(each.dtype for each in written)
        command = TimeAttention(profile.device, RATES_S, shapes, dtypes)
        answer = self._live().ask(command, AttentionTimes, 60.0)
        timed = tuple(
            replace(each, fused_ms=None if ms is None else ms * each.count)
            for each, ms in zip(written, answer.ms, strict=True)
        )
        return replace(window, attentions=timed)

    def _try_one_thread(self, profile: Profile) -> Profile:
        """Where several threads use little CPU time: what one of them alone would need."""
        host, run = profile.host, profile.run
        if host is None or run is None or run.num_threads < 2 or host.cpu_per_wall is None:
            return profile
        if host.cpu_per_wall >= LOW_CPU * run.num_threads:
            return profile
        session = self._live()
        session.settle({"num_threads": run.num_threads})
        slot = session.slot(self._plan.one_thread, drop=1, config={"num_threads": 1})
        session.slot(1, drop=0, config={"num_threads": run.num_threads})
        return replace(profile, host=replace(host, one_thread_step_ms=1000 * slot.mean_s))

    def _replay(self, profile: Profile, names: tuple[str, ...] | None = None) -> Profile:
        self.progress.say("replaying steps with one part left out")
        step_s = normal_step_s(self.wall_ns, self._flags)
        plan, session = self._plan, self._live()
        replaying = Replaying(session, profile, step_s, self.deadline, plan.effort, clock=self.clock)
        measured = replaying.run(plan.parts if names is None else names)
        missing = replaying.missing
        if missing and self.clock() < self.deadline:
            replaying = replace(replaying, session=self._live())
            measured = replaying.run(missing)
        compiled = profile.compile
        if compiled is not None and replaying.eager_step_ms is not None:
            compiled = replace(compiled, eager_step_ms=replaying.eager_step_ms)
        graphed = profile.run is not None and profile.run.evaluation_records_graph
        if graphed and names is None and replaying.session.alive:
            shares = replaying.session.ask(TimeGraph(), GraphShares, 120.0).shares
            measured = replace(measured, evaluation_without_graph=_share_of(shares))
        return replace(profile, replays=measured, compile=compiled)


def usual_s(step_s: Sequence[float]) -> float:
    """Seconds of a step as recorded ones are taken: the median where single long steps raise the mean."""
    return min(statistics.fmean(step_s), statistics.median(step_s))


def _saw_epochs(messages: Sequence[Observed]) -> bool:
    """Whether enough epochs ended, with their evaluations and saves, to know what their ends cost."""
    seen = Counter(flag for message in messages for flags in message.flags.values() for flag in flags)
    return seen["epoch"] >= EPOCH_ENDS


def _share_of(shares: Sequence[float]) -> Share | None:
    """The median of paired shares with its quartiles; negative ones count as 0."""
    if len(shares) < 3:
        return None
    low, middle, high = statistics.quantiles(shares, n=4)
    return Share(max(0.0, middle), max(0.0, low), max(0.0, high))


def syncs_of(profile: Profile, trace: Trace) -> Any:
    """Blocking calls: the trace's where a device was recorded, else those that the taps met."""
    from advisor.profiles.traces.device.device_timeline import sync_points

    return sync_points(trace) or profile.syncs


def _written(path: Path) -> Trace:
    """The trace that a process was to write: torch does not notice when a disk is full.

    Raises:
        TrialFailed: It is not there, or not whole.
    """
    try:
        return read_trace(path)
    except AdvisorError as error:
        raise TrialFailed(Failure("disk_full", f"the trace was not written: {error.message}")) from None

"""Whether a patched program gives what was promised: it against the program as it is, in fresh processes.

Both are compared as a recommendation is confirmed: the numbers of the first steps against the program's own
noise, then its speed in quads of slots of two processes that take turns, or over whole windows where worker
processes load the data.
"""

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.base.durations import write_duration
from advisor.base.errors import AdvisorError, TargetError, UsageError
from advisor.base.redaction import HIDDEN
from advisor.base.settings import Progress, Settings, Value
from advisor.base.signals import StopRequests
from advisor.patching.applying import Patch, legal_value
from advisor.profiles.facts.machine import Machine
from advisor.result.apply import Verdict, Verification
from advisor.result.comparability import machine_differences, refuse
from advisor.result.document import Adopted, Ratio, ResultData
from advisor.result.wording import gain_of
from advisor.result.words import GAINS
from advisor.runs.stand_in import write_stand_in
from advisor.stages.bench import MeasuredBench, failures_told, open_bench, run_unchanged
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts
from advisor.stages.confirming.fresh_processes import FreshPairs, FreshProcesses
from advisor.stages.confirming.numerics import NumericsGate
from advisor.stages.launching import Caller, open_launcher
from advisor.stages.trials import as_ratio
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.looks import MIN_INSTANCES, Decision
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.comparing.ways import BATON, WINDOWS
from advisor.tuners.knob import AnyKnob
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.environments import environment_of
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.supervision.isolation import remove

PROGRAM = "program"
ORIGINAL, PATCHED = "original", "patched"
TOO_FEW = f"fewer than the {MIN_INSTANCES} pairs of processes that a verdict needs were measured"
OVERRUN = 1.0  # of the budget, that may be taken beyond it to reach the first look
DEPTH = ("num_workers", "prefetch_factor", "batch_size")  # what windows and units of work depend on


@dataclass
class Programs(Arena):
    """Runs duels between two programs: the one of ``launcher``, and a patched one.

    A configuration names the program and, for the length of windows and the work of a step, what its loader
    does; it sets nothing.
    """

    patched: Launcher | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    loading: bool = False

    def how(self, first: Mapping[str, Value], second: Mapping[str, Value], *, fresh: bool = False) -> str:
        """Never in one process."""
        if self.loading or self.queue_depth(first) or self.queue_depth(second):
            return WINDOWS
        return BATON if self.two_fit and self.max_steps is None else WINDOWS

    def start(self, config: Mapping[str, Value], number: int, **options: Any) -> Running:
        """Start one of the two programs."""
        is_patched = config[PROGRAM] == PATCHED
        launcher = self.patched if is_patched and self.patched is not None else self.launcher
        environment = dict(self.variables) if is_patched else {}
        session = launcher.start(number, self.fixed, {}, environment=environment, **options)
        self.log = str(session.folder)
        return session


class MemoryPrograms(MemoryArena, Programs):
    """The same for peak memory."""


def refuse_promise(result: ResultData, patch: Patch, machine: Machine) -> None:
    """Refuse to verify what cannot be: nothing edited, or a promise of another machine.

    Raises:
        UsageError: With the reason.
    """
    if patch.file is None or not (patch.edited or patch.environment):
        raise UsageError(
            "nothing to verify: no change can be edited",
            hint="`advisor apply RESULT` shows what to write by hand",
        )
    if any(HIDDEN in word for word in result.target.args):
        raise UsageError(
            "the program was given a secret, which is not stored: it cannot be started again from here",
            hint="give it by the environment, and `advisor tune` again",
        )
    refuse(
        machine_differences(result.machine, machine.as_json()),
        hint="the gain was promised for the machine where it was measured; `advisor tune` here",
    )


def verify(settings: Settings, result: ResultData, patch: Patch, progress: Progress) -> Verification:
    """Measure a patched program against the program as it is.

    Args:
        settings: The target as it is, the budget, and what was fixed when it was tuned.
        result: Whose promise it is.
        patch: Has passed ``refuse_promise``.
        progress: Is told what happens.

    Raises:
        TargetError: The program as it is fails, makes too few steps, or the user interrupted.
        UsageError: The budget is below one run of it.
    """
    began = time.monotonic()
    with StopRequests() as stop, ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="advisor-verify-"))
        stack.callback(remove, folder)
        verifying = _Verifying(settings, result, patch, Caller(progress, stop), folder, stack, began)
        try:
            with failures_told("apply", "enough was measured to verify"):
                return verifying.run()
        except (TargetError, UsageError) as error:
            raise _of_apply(error, folder) from None


@dataclass
class _Verifying:
    """One call of ``verify``."""

    settings: Settings
    result: ResultData
    patch: Patch
    caller: Caller
    folder: Path
    stack: ExitStack
    began: float

    def run(self) -> Verification:
        """Baseline, numbers, speed."""
        self.caller.progress.begin(
            f"{self.patch.name}: the patched program against it as it is, in fresh processes, "
            f"up to {write_duration(self.settings.budget_s)}"
        )
        first, second = self._configs()
        try:
            bench = self._bench()
            numbers = self._numbers(bench, first, second)
        except _PatchedFailed as failed:
            return self._verdict("failed", why=str(failed))
        if numbers.verdict == "drifts":
            return self._verdict("drifts", numbers)
        decision = self._speed(bench, first, second)
        measured = as_ratio(decision.estimate)
        return self._verdict(judged(measured, self._promised()), numbers, measured)

    def _bench(self) -> MeasuredBench:
        folder = self._folder("original")
        opening = open_bench(self.settings, folder, self.caller, began=self.began, arena=self._arena)
        bench = run_unchanged(self.stack.enter_context(opening))
        self.began = bench.began
        bench.baseline.end()
        if bench.baseline.disturbance is not None:
            self.caller.warn(bench.baseline.disturbance)
        return bench

    def _arena(
        self, original: Launcher, knobs: Mapping[str, AnyKnob], present: Mapping[str, Value], **options: Any
    ) -> Programs:
        assert self.patch.file is not None  # refuse_promise has seen it
        stand_in = write_stand_in(self.patch.file, self.patch.after, self._folder("stand-in"))
        target = replace(self.settings.target, name=str(stand_in))
        settings = replace(self.settings, target=target)
        opening = open_launcher(settings, self._folder("patched"), self.caller)
        try:
            patched = self.stack.enter_context(opening)
        except TrialFailed as failed:  # a workload is loaded here
            raise _PatchedFailed(_told(failed)) from None
        kind = MemoryPrograms if self.result.objective == "memory" else Programs
        return kind(
            original,
            knobs,
            present,
            patched=patched,
            fixed=self.settings.fixed,
            variables=self._variables(),
            loading=any(KNOBS[change.knob].loading for change in self._made()),
            **options,
        )

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        return folder

    def _configs(self) -> tuple[dict[str, Value], dict[str, Value]]:
        """What the loaders of both programs do."""
        present, made = self.result.baseline.config, {change.knob: change.to for change in self._made()}
        first = {name: present[name] for name in DEPTH if name in present}
        second = first | {name: made[name] for name in DEPTH if name in made}
        return {PROGRAM: ORIGINAL, **first}, {PROGRAM: PATCHED, **second}

    def _numbers(
        self, bench: MeasuredBench, first: Mapping[str, Value], second: Mapping[str, Value]
    ) -> gate.Verdict:
        numerics = NumericsGate.open(bench, first, OVERRUN)
        numerics.prepare(second)
        try:
            learned = numerics.learn(second)
        except TrialFailed as failed:
            raise _PatchedFailed(_told(failed)) from None
        made = [change.knob for change in self._made()]
        return numerics.judge(learned, made, self.result.recommendation.config)

    def _speed(
        self, bench: MeasuredBench, first: Mapping[str, Value], second: Mapping[str, Value]
    ) -> Decision:
        how = bench.arena.how(first, second)
        costs = ConfirmationCosts(bench, first, second)
        processes = FreshProcesses(bench, OVERRUN * self.settings.budget_s, costs.pairs_s)
        pairs = FreshPairs(processes, first, second, how, costs.quads, "measuring pair")
        decision, _ = pairs.confirm(lambda duel: duel.log_ratios, min_gain=self.result.min_gain)
        return decision

    def _made(self) -> list[Adopted]:
        """Changes that the patched program and its environment hold."""
        edited = {each.knob for each in self.patch.edited}
        return [
            change for change in self.result.recommendation.changes
            if change.knob in KNOBS and (change.knob in edited or self._set_by_variables(change))
        ]  # fmt: skip

    def _set_by_variables(self, change: Adopted) -> bool:
        named = {each.knob for each in self.patch.instructions if each.environment}
        settable = hasattr(KNOBS[change.knob], "environment")
        return settable and change.knob in named and legal_value(change) is not None

    def _variables(self) -> dict[str, str]:
        """What knobs set before a process starts: their own word, not that of a file."""
        values = {change.knob: legal_value(change) for change in self._made()}
        return environment_of({name: value for name, value in values.items() if value is not None}, {}, KNOBS)

    def _promised(self) -> Ratio | None:
        """The gain of the whole recommendation, where all of it was measured."""
        made = {change.knob for change in self._made()}
        every = {change.knob for change in self.result.recommendation.changes}
        return self.result.recommendation.speedup if made == every else None

    def _verdict(
        self,
        verdict: Verdict,
        numbers: gate.Verdict | None = None,
        measured: Ratio | None = None,
        why: str = "",
    ) -> Verification:
        gain, promised = gain_of(self.result), self._promised()
        if promised is None and measured is not None:
            why = "only a part of what was promised is in the patch: what is promised is a gain, not how much"
        elif gain == GAINS["goodput"] and measured is not None:
            why = "throughput is measured; what a sample of the larger batch is worth is part of the promise"
        elif verdict == "not_shown":
            few = measured is not None and measured.instances < MIN_INSTANCES
            why = f"{TOO_FEW}; a longer --budget measures more" if few else "a longer --budget measures more"
        return Verification(
            verdict=verdict,
            promised=promised,
            measured=measured,
            gain=GAINS["throughput"] if gain == GAINS["goodput"] else gain,
            numerics=numbers.verdict if numbers is not None else "not_checked",
            numerics_reason=numbers.reason if numbers is not None else "",
            processes=2 * measured.instances if measured is not None else 0,
            seconds=time.monotonic() - self.began,
            why=why,
        )


class _PatchedFailed(Exception):
    """The patched program fails where the other one does not."""


def judged(measured: Ratio, promised: Ratio | None) -> Verdict:
    """Whether a measured gain is the promised one: shown to be a gain, and not shown to be a smaller one.

    Args:
        measured: The patched program over the original.
        promised: By the result; ``None`` where only a part of it is in the patch.
    """
    if promised is not None and measured.high < promised.low:
        return "missed"
    return "met" if measured.low > 1 else "not_shown"


def _told(failed: TrialFailed) -> str:
    return f"{failed.failure.cause}: {failed.failure.message}"


def _of_apply(error: AdvisorError, folder: Path) -> AdvisorError:
    """The error without hints at logs, which are not kept, and at options that ``apply`` does not have."""
    hint = error.hint or ""
    if str(folder) in hint or "advisor " in hint:
        hint = ""
    error.hint = hint.replace(", or fewer `--steps`", "").replace("`--steps 5`, or let", "let") or None
    return error

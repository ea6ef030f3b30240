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
from advisor.stages.baseline import Baseline, run_baseline, target_error
from advisor.stages.confirmation_plan import instance_quads
from advisor.stages.launching import make_launcher, until_stopped
from advisor.stages.trials import as_ratio
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import BATON, WINDOWS, Arena
from advisor.tuners.comparing.measure import MIN_INSTANCES, Decision, confirm
from advisor.tuners.comparing.memory_duel import MemoryArena
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.environments import environment_of
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.supervision.isolation import remove

PROGRAM = "program"
ORIGINAL, PATCHED = "original", "patched"
LEARNING_SHARE = 0.1  # of the budget, for the runs of the numerics gate
LEAST_LEARNING_STEPS = 3
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
    fixed: Mapping[str, Value] = field(default_factory=dict)
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
    with StopRequests() as stop, ExitStack() as stack:
        waiting = until_stopped(stop, progress)
        folder = Path(tempfile.mkdtemp(prefix="advisor-verify-"))
        stack.callback(remove, folder)
        verifying = _Verifying(settings, result, patch, progress, folder, stack, waiting)
        try:
            return verifying.run()
        except TrialFailed as failed:
            raise _of_apply(target_error(failed.failure, None, command="apply"), folder) from None
        except Interrupted:
            raise TargetError(
                "interrupted before enough was measured to verify", code="interrupted"
            ) from None
        except (TargetError, UsageError) as error:
            raise _of_apply(error, folder) from None


@dataclass
class _Verifying:
    """One call of ``verify``."""

    settings: Settings
    result: ResultData
    patch: Patch
    progress: Progress
    folder: Path
    stack: ExitStack
    waiting: Any
    began: float = field(default_factory=time.monotonic)
    warned: set[str] = field(default_factory=set)

    def run(self) -> Verification:
        """Baseline, numbers, speed."""
        self.progress.begin(
            f"{self.patch.name}: the patched program against it as it is, in fresh processes, "
            f"up to {write_duration(self.settings.budget_s)}"
        )
        first, second = self._configs()
        try:
            arena = self._arena()
            baseline = self._baseline(arena)
            numbers = self._numbers(arena, baseline, first, second)
        except _PatchedFailed as failed:
            return self._verdict("failed", why=str(failed))
        if numbers.verdict == "drifts":
            return self._verdict("drifts", numbers)
        decision = self._speed(arena, first, second)
        measured = as_ratio(decision.estimate)
        return self._verdict(judged(measured, self._promised()), numbers, measured)

    def _arena(self) -> Programs:
        original = self._launcher("original", self.settings)
        assert self.patch.file is not None  # refuse_promise has seen it
        place = self._folder("stand-in")
        stand_in = write_stand_in(self.patch.file, self.patch.after, place)
        target = replace(self.settings.target, name=str(stand_in))
        try:
            patched = self._launcher("patched", replace(self.settings, target=target))
        except TrialFailed as failed:  # a workload is loaded here
            raise _PatchedFailed(_told(failed)) from None
        kind = MemoryPrograms if self.result.objective == "memory" else Programs
        return kind(
            original,
            KNOBS,
            {},
            patched=patched,
            fixed=self.settings.fixed,
            variables=self._variables(),
            loading=any(KNOBS[change.knob].loading for change in self._made()),
        )

    def _launcher(self, name: str, settings: Settings) -> Launcher:
        launcher = self.stack.enter_context(
            make_launcher(
                settings, self._folder(name), self.stack, self.waiting, self._warn, self.progress.say
            )
        )
        self.began += launcher.waited_s
        return launcher

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        return folder

    def _baseline(self, arena: Programs) -> Baseline:
        self.progress.say("running it unchanged")
        baseline = run_baseline(arena.launcher, arena, self.settings)
        if baseline.session is not None:
            baseline.session.kill()
        baseline.teach(arena)
        if baseline.contended:
            self._warn("other processes use this machine; small differences cannot be told")
        return baseline

    def _configs(self) -> tuple[dict[str, Value], dict[str, Value]]:
        """What the loaders of both programs do."""
        present, made = self.result.baseline.config, {change.knob: change.to for change in self._made()}
        first = {name: present[name] for name in DEPTH if name in present}
        second = first | {name: made[name] for name in DEPTH if name in made}
        return {PROGRAM: ORIGINAL, **first}, {PROGRAM: PATCHED, **second}

    def _numbers(
        self, arena: Programs, baseline: Baseline, first: Mapping[str, Value], second: Mapping[str, Value]
    ) -> gate.Verdict:
        affordable = int(LEARNING_SHARE * self.settings.budget_s / 5 / arena.step_s)
        steps = max(LEAST_LEARNING_STEPS, min(gate.STEPS, affordable))
        if arena.max_steps is not None:
            steps = min(steps, arena.max_steps - 1)
        self.progress.say(f"comparing the numbers of the first {steps} steps")
        reference = gate.reference(arena, first, steps)
        nudged = gate.Nudged(
            lambda seed: gate.learn(arena, first, steps, nudge=seed).losses,
            affordable=lambda: time.monotonic() < self.began + (1 + OVERRUN) * self.settings.budget_s,
        )
        try:
            learned = gate.learn(arena, second, steps)
        except TrialFailed as failed:
            raise _PatchedFailed(_told(failed)) from None
        made = [change.knob for change in self._made()]
        draws = gate.own_draws(
            made,
            has_dropout=any(root.has_dropout for root in baseline.profile.roots),
            loader_is_live=arena.launcher.target.kind in ("script", "module"),
        )
        semantics = gate.widest([KNOBS[name].meaning(self.result.recommendation.config) for name in made])
        return gate.judge(
            reference,
            learned.losses,
            semantics,
            own_draws=draws,
            norms=learned.grad_norms,
            nudged=nudged,
        )

    def _speed(self, arena: Programs, first: Mapping[str, Value], second: Mapping[str, Value]) -> Decision:
        how, quads = arena.how(first, second), instance_quads(arena, self.settings)
        deadline = self.began + self.settings.budget_s
        last_s = 0.0

        def instance(index: int) -> list[float] | None:
            nonlocal last_s
            allowed = OVERRUN * self.settings.budget_s if index < MIN_INSTANCES else 0.0
            if index and time.monotonic() + last_s > deadline + allowed:
                return None
            self.progress.part(f"measuring pair {index + 1}")
            duel = arena.duel(first, second, how=how, quads=quads, swapped=index % 2 == 1)
            last_s = duel.seconds
            return duel.log_ratios

        decision, _ = confirm(instance, min_gain=self.result.min_gain, level=self.settings.confidence)
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

    def _warn(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            self.progress.warn(text)

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

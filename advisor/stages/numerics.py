"""Which changes of a nominee leave its numbers as they should be: together, and one by one if need be."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from advisor.base.settings import Progress, Settings
from advisor.stages.baseline import Baseline
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.retrying import once_more
from advisor.tuners.knob import Semantics
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

LEARNING_SHARE = 0.1  # of the budget, for the runs of the numerics gate
MIN_LEARNING_STEPS = 3
OVERRUN = 0.5  # of the budget, that a confirmation may take beyond it to reach its first look
SINGLES_SHARE = 0.3  # of the budget that must be left, for the numbers of each change to be compared alone


@dataclass
class Numerics:
    """What was found out about a nominee.

    Attributes:
        config: The nominee less what drifts.
        verdicts: Per change and, under ``""``, for the whole.
        rejected: Changes that were taken out, with the reason.
        reason: Of the last verdict that took any out.
        peaks: Peak memory of the nominee's run, in bytes.
        compile_s: The longest compilation that was seen.
    """

    config: Configuration
    verdicts: dict[str, gate.Verdict] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    peaks: tuple[int, ...] = ()
    compile_s: float | None = None


@dataclass
class NumericsCheck:
    """Runs the first steps under a nominee and parts of it, beside the baseline.

    Attributes:
        reference: Losses of the baseline and its noise, once it has run.
    """

    arena: Arena
    space: Space
    baseline: Baseline
    settings: Settings
    deadline: float
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    reference: gate.Reference | None = None
    _nudged: gate.Nudged | None = None
    _alone: set[str] = field(default_factory=set)  # changes that were judged by themselves

    def run(self, winner: Configuration) -> Numerics:
        """Judge a nominee, and leave out what drifts."""
        steps = self._learning_steps()
        self.progress.say(f"comparing the numbers of the first {steps} steps")
        self.reference = once_more(lambda: gate.reference(self.arena, self.space.present, steps))
        self._nudged = gate.Nudged(
            lambda seed: gate.learn(self.arena, self.space.present, steps, nudge=seed).losses,
            affordable=lambda: self.clock() < self.deadline + OVERRUN * self.settings.budget_s,
        )
        found, began = Numerics(winner), self.clock()
        whole, drift = self._together(winner, found, steps)
        changed, one_s = winner.changed(self.space.present), self.clock() - began
        affordable = (
            self.clock() + len(changed) * one_s < self.deadline - SINGLES_SHARE * self.settings.budget_s
        )
        if drift is not None or (len(changed) > 1 and affordable):
            self._each_alone(winner, found, steps)
        if drift is not None and found.config == winner:  # none of them alone
            self._take_out(found, changed if whole is drift else self._comparable(winner), drift)
        if found.config != winner and found.config.changed(self.space.present):
            reduced = found.config
            whole, drift = self._together(reduced, found, steps)
            if drift is not None:
                left = reduced.changed(self.space.present)
                self._take_out(found, left if whole is drift else self._comparable(reduced), drift)
        if drift is None and not found.config.changed(self.space.present):
            found.reason = next(reversed(found.rejected.values()), "")
        else:
            found.reason = whole.reason if drift is None else drift.reason
        found.verdicts[""] = whole
        return found

    def _together(
        self, config: Configuration, found: Numerics, steps: int
    ) -> tuple[gate.Verdict, gate.Verdict | None]:
        """On the whole, and the verdict that says that it drifts, if any.

        Beside a change of what is learnt nothing can be compared step by step: what else is changed is
        judged without it.
        """
        whole, peak = self._judge(config, found, steps)
        found.peaks = (peak,)
        comparable, changed = self._comparable(config), config.changed(self.space.present)
        if whole.verdict == "drifts" or not comparable or len(comparable) == len(changed):
            return whole, whole if whole.verdict == "drifts" else None
        rest = self.space.complete({name: config[name] for name in comparable})
        if not rest.changed(self.space.present):  # it has no effect without the others
            return whole, None
        beside, _ = self._judge(rest, found, steps)
        found.verdicts.update({name: beside for name in comparable if name not in self._alone})
        return whole, beside if beside.verdict == "drifts" else None

    def _each_alone(self, winner: Configuration, found: Numerics, steps: int) -> None:
        for name in winner.changed(self.space.present):
            single = self.space.complete({name: winner[name]})
            if not single.changed(self.space.present):  # as a learning rate without a batch
                continue
            verdict, _ = self._judge(single, found, steps)
            found.verdicts[name] = verdict
            self._alone.add(name)
            if verdict.verdict == "drifts":
                self._take_out(found, [name], verdict)

    def _take_out(self, found: Numerics, names: Iterable[str], drift: gate.Verdict) -> None:
        found.rejected.update(dict.fromkeys(names, drift.reason))
        for name in names:
            found.config = self.space.without(found.config, name)

    def _judge(self, config: Configuration, found: Numerics, steps: int) -> tuple[gate.Verdict, int]:
        """The verdict on one configuration, and its peak of memory in bytes."""
        assert self.reference is not None  # run has made it
        changed = list(config.changed(self.space.present))
        learned = once_more(lambda: gate.learn(self.arena, config, steps))
        if learned.compile_s:
            found.compile_s = max(found.compile_s or 0.0, learned.compile_s)
        draws = gate.own_draws(
            changed,
            has_dropout=any(root.has_dropout for root in self.baseline.profile.roots),
            loader_is_live=self.arena.launcher.target.kind in ("script", "module"),
        )
        verdict = gate.judge(
            self.reference,
            learned.losses,
            gate.widest([self.arena.knobs[name].meaning(config) for name in changed]),
            own_draws=draws,
            norms=learned.grad_norms,
            nudged=self._nudged,
        )
        return verdict, learned.peak_bytes

    def _comparable(self, config: Configuration) -> list[str]:
        """Changes that leave what is learnt as it is."""
        return [
            name
            for name in config.changed(self.space.present)
            if self.arena.knobs[name].meaning(config) is not Semantics.TRAINING
        ]

    def _learning_steps(self) -> int:
        """Steps of the gate's runs that a tenth of the budget allows."""
        affordable = LEARNING_SHARE * self.settings.budget_s / 5 / self.arena.step_s
        steps = max(MIN_LEARNING_STEPS, min(gate.STEPS, int(affordable)))
        return steps if self.arena.max_steps is None else min(steps, self.arena.max_steps - 1)

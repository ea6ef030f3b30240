"""Which changes of a nominee leave its numbers as they should be: together, and one by one if need be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.stages.bench import MeasuredBench
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.retrying import once_more
from advisor.tuners.knob import Semantics, Value
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


@dataclass(frozen=True)
class NumericsGate:
    """Judges the first steps of a candidate beside those of the program as it is.

    Attributes:
        steps: That are compared.
        reference: Losses of the program as it is, and their noise.
        nudged: How far roundings grow in it.
    """

    bench: MeasuredBench
    steps: int
    reference: gate.Reference
    nudged: gate.Nudged

    @classmethod
    def open(cls, bench: MeasuredBench, base: Mapping[str, Value], overrun: float) -> "NumericsGate":
        """Run the first steps of the program as it is.

        Args:
            bench: Runs them.
            base: The configuration of the program as it is.
            overrun: Share of the budget beyond its end, until which growing roundings are looked at.

        Raises:
            TrialFailed: It failed, or was disrupted twice.
        """
        steps, arena, settings = learning_steps(bench), bench.arena, bench.settings
        bench.progress.say(f"comparing the numbers of the first {steps} steps")
        reference = once_more(lambda: gate.reference(arena, base, steps))
        nudged = gate.Nudged(
            lambda seed: gate.learn(arena, base, steps, nudge=seed).losses,
            affordable=lambda: bench.clock() < bench.deadline + overrun * settings.budget_s,
        )
        return cls(bench, steps, reference, nudged)

    def learn(self, config: Mapping[str, Value]) -> gate.Learning:
        """The first steps of a candidate.

        Raises:
            TrialFailed: It failed, or was disrupted twice.
        """
        return once_more(lambda: gate.learn(self.bench.arena, config, self.steps))

    def judge(
        self, learned: gate.Learning, changed: Sequence[str], config: Mapping[str, Value]
    ) -> gate.Verdict:
        """What is to be said of the first steps of a candidate.

        Args:
            learned: What ``learn`` gave.
            changed: The knobs that make it another program.
            config: Their values, and those of the others.
        """
        draws = gate.own_draws(
            changed,
            has_dropout=any(root.has_dropout for root in self.bench.profile.roots),
            loader_is_live=self.bench.launcher.target.kind in ("script", "module"),
        )
        knobs = self.bench.arena.knobs
        return gate.judge(
            self.reference,
            learned.losses,
            gate.widest([knobs[name].meaning(config) for name in changed]),
            own_draws=draws,
            norms=learned.grad_norms,
            nudged=self.nudged,
        )


@dataclass
class NumericsCheck:
    """Runs the first steps under a nominee and parts of it, beside the baseline."""

    against: NumericsGate
    space: Space
    _alone: set[str] = field(default_factory=set)  # changes that were judged by themselves

    def run(self, winner: Configuration) -> Numerics:
        """Judge a nominee, and leave out what drifts."""
        bench, clock = self.against.bench, self.against.bench.clock
        found, began = Numerics(winner), clock()
        whole, drift = self._together(winner, found)
        changed, one_s = winner.changed(self.space.present), clock() - began
        kept_s = SINGLES_SHARE * bench.settings.budget_s
        affordable = clock() + len(changed) * one_s < bench.deadline - kept_s
        if drift is not None or (len(changed) > 1 and affordable):
            self._each_alone(winner, found)
        if drift is not None and found.config == winner:  # none of them alone
            self._take_out(found, changed if whole is drift else self._comparable(winner), drift)
        if found.config != winner and found.config.changed(self.space.present):
            reduced = found.config
            whole, drift = self._together(reduced, found)
            if drift is not None:
                left = reduced.changed(self.space.present)
                self._take_out(found, left if whole is drift else self._comparable(reduced), drift)
        if drift is None and not found.config.changed(self.space.present):
            found.reason = next(reversed(found.rejected.values()), "")
        else:
            found.reason = whole.reason if drift is None else drift.reason
        found.verdicts[""] = whole
        return found

    def _together(self, config: Configuration, found: Numerics) -> tuple[gate.Verdict, gate.Verdict | None]:
        """On the whole, and the verdict that says that it drifts, if any.

        Beside a change of what is learnt nothing can be compared step by step: what else is changed is
        judged without it.
        """
        whole, peak = self._judge(config, found)
        found.peaks = (peak,)
        comparable, changed = self._comparable(config), config.changed(self.space.present)
        if whole.verdict == "drifts" or not comparable or len(comparable) == len(changed):
            return whole, whole if whole.verdict == "drifts" else None
        rest = self.space.complete({name: config[name] for name in comparable})
        if not rest.changed(self.space.present):  # it has no effect without the others
            return whole, None
        beside, _ = self._judge(rest, found)
        found.verdicts.update({name: beside for name in comparable if name not in self._alone})
        return whole, beside if beside.verdict == "drifts" else None

    def _each_alone(self, winner: Configuration, found: Numerics) -> None:
        for name in winner.changed(self.space.present):
            single = self.space.complete({name: winner[name]})
            if not single.changed(self.space.present):  # as a learning rate without a batch
                continue
            verdict, _ = self._judge(single, found)
            found.verdicts[name] = verdict
            self._alone.add(name)
            if verdict.verdict == "drifts":
                self._take_out(found, [name], verdict)

    def _take_out(self, found: Numerics, names: Iterable[str], drift: gate.Verdict) -> None:
        found.rejected.update(dict.fromkeys(names, drift.reason))
        for name in names:
            found.config = self.space.without(found.config, name)

    def _judge(self, config: Configuration, found: Numerics) -> tuple[gate.Verdict, int]:
        """The verdict on one configuration, and its peak of memory in bytes."""
        learned = self.against.learn(config)
        if learned.compile_s:
            found.compile_s = max(found.compile_s or 0.0, learned.compile_s)
        changed = list(config.changed(self.space.present))
        return self.against.judge(learned, changed, config), learned.peak_bytes

    def _comparable(self, config: Configuration) -> list[str]:
        """Changes that leave what is learnt as it is."""
        return [
            name
            for name in config.changed(self.space.present)
            if self.against.bench.arena.knobs[name].meaning(config) is not Semantics.TRAINING
        ]


def learning_steps(bench: MeasuredBench) -> int:
    """Steps of the gate's runs that a tenth of the budget allows."""
    arena = bench.arena
    affordable = LEARNING_SHARE * bench.settings.budget_s / 5 / arena.step_s
    steps = max(MIN_LEARNING_STEPS, min(gate.STEPS, int(affordable)))
    return steps if arena.max_steps is None else min(steps, arena.max_steps - 1)

"""What a confirmation came to."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from advisor.stages.confirming.compile_cost import break_even_steps
from advisor.stages.confirming.longer_run import LongerRun
from advisor.stages.confirming.request_tails import RequestTails
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.looks import Decision
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import not_applied


@dataclass
class Outcome:
    """What is recommended and why.

    Attributes:
        config: The baseline's under ``keep``.
        decision: The last confirmation; ``None`` when nothing came so far.
        contributions: Log ratio that each change gives, by removal.
        numerics: Per change and, under ``""``, for the whole.
        reason: Why nothing is recommended, or what limits it.
        tells: The smallest relative gain that processes of the program would have told, where what was found
            is less, and so was not confirmed.
        rejected: Nominated changes that the gate or a limit took out, with the reason.
        compile_s: Longest compilation seen, with an empty cache.
        compile_warm_s: Shortest one, in later processes that found the cache filled.
        step_ratio: Of the time of a step, its worth included; ``None`` where no confirmation measured it.
        time: The confirmation by wall time, where it compares something else.
        cpu: The confirmation by CPU time instead of wall time, where that is a valid clock.
        longer: The recommendation run for longer than it was measured.
        tails: Of a run that is counted in requests: those of the confirmation.
        interrupted: The user stopped the run after the pairs had decided, before the longer run was through.
        unchanged_ms: Time of a step of the baseline in each process of the confirmation.
    """

    config: Configuration
    verdict: Literal["change", "keep"] = "keep"
    decision: Decision | None = None
    contributions: dict[str, Estimate] = field(default_factory=dict)
    numerics: dict[str, gate.Verdict] = field(default_factory=dict)
    reason: str = ""
    tells: float | None = None
    rejected: dict[str, str] = field(default_factory=dict)
    reference: gate.Reference | None = None
    winner_peaks: tuple[int, ...] = ()
    compile_s: float | None = None
    compile_warm_s: float | None = None
    step_ratio: float | None = None
    time: Estimate | None = None
    cpu: Estimate | None = None
    longer: LongerRun | None = None
    tails: RequestTails | None = None
    interrupted: bool = False
    unchanged_ms: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Confirmed log ratio; 0 of the unchanged program."""
        if self.verdict != "change" or self.decision is None:
            return 0.0
        return self.decision.estimate.estimate

    @property
    def refused(self) -> bool:
        """Whether something else than speed stands against what was nominated: its answers or its tail."""
        if self.verdict == "change":
            return False
        if self.decision is None:
            return bool(self.rejected and self.numerics)
        return self.decision.verdict == "confirmed"

    def forget(self) -> None:
        """Nothing that pairs have shown holds any more."""
        self.decision = self.cpu = self.time = self.longer = self.tails = None
        self.unchanged_ms.clear()

    def refuse_declined(self, refused: Mapping[str, str], changed: Collection[str]) -> None:
        """End the measurement of a configuration that does not hold: one of its changes declined.

        Args:
            refused: Settings that declined, with the reason.
            changed: Those of the configuration.

        Raises:
            TrialFailed: ``not_applied``; ``rejected`` has them with their reasons.
        """
        declined = {name: why for name, why in refused.items() if name in changed}
        if declined:
            self.rejected.update(declined)
            raise not_applied(declined)

    def remember(self, earlier: "Outcome") -> None:
        """What was rejected before, and is no part of this, is still told."""
        for name, reason in earlier.rejected.items():
            if self.config.get(name) == earlier.config.get(name):
                self.rejected.setdefault(name, reason)
                if name in earlier.numerics:
                    self.numerics.setdefault(name, earlier.numerics[name])

    def told(self, config: Configuration, present: Configuration) -> str:
        """What was decided about, in place of the program as it is, and how much faster that was."""
        changes = ", ".join(f"{name}={value}" for name, value in config.changed(present).items())
        if self.decision is None:
            return changes
        estimate, low, high = self.decision.estimate.ratio
        return f"{changes}, {estimate:.2f}x ({low:.2f} to {high:.2f})"

    def break_even_steps(self, step_s: float) -> int | None:
        """Steps of ``step_s`` seconds after which compiling is paid back; ``None`` when it never is."""
        alone = None if self.time is not None else self.contributions.get("execution")
        ratio = None if alone is None else math.exp(alone.estimate)
        return break_even_steps(self.compile_s, step_s, whole=self.step_ratio, alone=ratio)

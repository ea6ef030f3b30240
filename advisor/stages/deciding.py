"""From what a search nominates to a decision: about it, or about what stands for it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from advisor.result import wording
from advisor.stages.batch_size import Batches
from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.asked_ahead import AskedAhead
from advisor.stages.confirming.confirmation import Confirmation
from advisor.stages.confirming.learning_elsewhere import LearningElsewhere
from advisor.stages.confirming.outcome import Outcome
from advisor.stages.confirming.reducing import NEEDLESS
from advisor.stages.reach import Reach
from advisor.stages.trials import TrialLog
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.launching.session import Interrupted
from advisor.tuners.search.measuring import NEARLY_LARGE
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space


@dataclass
class Deciding:
    """Has confirmed what a search found, and knows what is recommended so far.

    Attributes:
        taken: Is called when something else is recommended.
        outcome: What is recommended so far, however the run ends.
        elsewhere: Has another node run what numbers are judged by.
    """

    bench: MeasuredBench
    space: Space
    trials: TrialLog
    batches: Batches
    search: Search
    reach: Reach
    taken: Callable[[], None]
    outcome: Outcome = field(init=False)
    elsewhere: LearningElsewhere = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = Outcome(self.space.present, reason="interrupted before the confirmation was through")
        self.elsewhere = LearningElsewhere(self.bench, self.space)
        self.search.adopted = self.elsewhere.prepare
        self.search.likely = AskedAhead(self.bench.crew, self._confirmation).expect

    def take(self, outcome: Outcome) -> None:
        """From now on this is what is known."""
        self.outcome = outcome
        if outcome.verdict == "change":
            self.trials.confirmed = outcome.gain
            self.taken()

    def decide(self, nominee: Configuration) -> Outcome:
        """What a confirmation says of a nominee, or of what stands for it.

        That is what it grew from where no time is left for itself, and it as a whole where pairs of processes
        find what is left of it by far not as fast as the search found it, or confirm nothing of it.

        Raises:
            Interrupted: By the user; what was confirmed until then is taken.
        """
        present, score = self.space.present, self.search.score
        beyond = self.reach.beyond(nominee, score) if nominee.changed(present) else None
        outcome = self.confirm(nominee) if beyond is None else beyond.outcome(present)
        decision = outcome.decision
        if decision is not None:
            left, confirmed = decision.estimate, decision.verdict == "confirmed"
            if score >= max(left.high, NEARLY_LARGE + (left.estimate if confirmed else 0.0)):
                return self._whole(nominee, outcome, left)
            return outcome
        if wording.BEYOND_BUDGET not in outcome.reason:
            return outcome
        instead = self.reach.within(self.search.earlier())
        if instead is None:
            return outcome
        self.bench.progress.say("no time is left to confirm the best: taking what it grew from")
        smaller = self.confirm(instead[1], score=instead[0])
        smaller.reason = smaller.reason or outcome.reason
        return smaller

    def _whole(self, nominee: Configuration, outcome: Outcome, left: Estimate) -> Outcome:
        """The whole nominee where that is confirmed, and faster than what was ``left`` if that was too.

        What one change that went brings is then the difference: what spoke for taking it out was mistaken.
        """
        gone = [name for name, why in outcome.rejected.items() if why == NEEDLESS]
        if not gone or outcome.refused or self.reach.beyond(nominee, self.search.score) is not None:
            return outcome
        if outcome.gain > self.outcome.gain:
            self.take(outcome)
        told = ", ".join(gone)
        self.bench.progress.say(f"what is left is not as fast without {told}: taking all of it")
        whole = self.confirm(nominee, reduced=True)
        if whole.verdict != "change" or whole.decision is None:
            return outcome
        brings = whole.decision.estimate.less(left)
        if brings.low <= 0 and outcome.verdict == "change":
            return outcome
        if brings.low > 0 and len(gone) == 1:
            whole.contributions[gone[0]] = brings
        whole.remember(outcome)
        return whole

    def confirm(
        self, nominee: Configuration, *, reduced: bool = False, score: float | None = None
    ) -> Outcome:
        """What a confirmation says; args as of ``Confirmation``, by the search where no ``score`` is given.

        Raises:
            Interrupted: As of ``decide``.
        """
        confirmation = self._confirmation()
        confirmation.gain = confirmation.gain if score is None else score
        try:
            outcome = confirmation.decide(nominee, reduced=reduced)
        finally:
            self.search.next_number = confirmation.next_number
        if outcome.interrupted:  # what its pairs have confirmed stands
            self.take(max(self.outcome, outcome, key=lambda each: each.gain))
            raise Interrupted
        return outcome

    def _confirmation(self) -> Confirmation:
        bench, search = self.bench, self.search
        return Confirmation(
            bench, self.space, self.trials, self.batches, search.next_number, search.score, search.known,
            self.elsewhere, self.outcome.config if self.outcome.verdict == "change" else None,
        )  # fmt: skip

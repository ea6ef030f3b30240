"""A larger batch no longer gives more samples per second."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.03  # more samples per second for twice the batch; set by experiment


class ThroughputKnee(Rule):
    """Samples per second grow with the batch until the processor is full, and then stay or fall.

    Past that knee a larger batch costs memory and makes fewer updates of the same data, for nothing. At 16
    times the batch a small MLP gave 2.3 times the samples per second, a LeNet 0.49 times (2-core CPU).
    Keep the batch, or shrink it where memory is wanted for something else; a smaller batch changes
    training as a larger one does.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    on_traces = "time of twice the batch: needs the program itself"
    threshold = "less than 3 % more samples per second for twice the batch (set by experiment)"
    knobs = ("batch_size",)
    severity = Severity.LOW

    def check(self, profile: Profile) -> Finding:
        double, half = profile.replays.double_batch, profile.replays.half_batch
        if double is None or double.share <= 0:
            why = dict(profile.replays.refused).get("double_batch", "needs a replay")
            return self.not_applicable("time of twice the batch", why)
        gain = 2 / double.share - 1
        if gain >= THRESHOLD:
            return self.passed(f"{percent(gain)} more samples/s for twice the batch")
        evidence = {"time_of_twice_the_batch": round(double.share, 3)}
        if half is not None:
            evidence["time_of_half_the_batch"] = round(half.share, 3)
        if half is not None and 2 * half.share - 1 < THRESHOLD:
            advice = "Keep the batch, or halve it to free memory: half the batch gives as many samples/s" + (
                "." if profile.serves else ", but changes training, so compare the loss."
            )
        else:
            advice = "Keep the batch: a larger one costs memory and gives nothing."
        change = f"{percent(gain)} more" if gain >= 0 else f"{percent(-gain)} fewer"
        return self.diagnostic(
            f"{change} samples/s for twice the batch: no reason to grow further",
            advice=advice,
            location=profile.loader.location if profile.loader is not None else None,
            evidence=evidence,
        )

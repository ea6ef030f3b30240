"""A network that learns nothing computes its output anew in every step."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule
from advisor.advice.rule import Family, percent
from advisor.profiles.derived.asking_lines import asks
from advisor.profiles.facts.observed import LineCalls
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.piecewise_calls import calls_share

THRESHOLD = 0.20  # of the step: below it, storing what it gives is hardly worth it; set by experiment


class FrozenFeatures(LineRule):
    """A pretrained backbone, a text encoder or a teacher stays as it is; a small part behind it is trained.

    What it gives for an item is the same in each epoch, as long as the item is the same. Then computing it
    once for all items, and training on what was stored, leaves nothing but the small part. Augmentations
    that draw anew make other items each time: then the only gains are a larger batch for the frozen part,
    and lower precision. Whether items repeat is not known here, so this is told as a possibility. The
    ceiling is all the time of lines whose weights get no gradient and did not change from step to step.
    """

    family = Family.COMPUTE
    kind = Kind.HEADROOM
    on_traces = "which weights learn: a trace does not hold it"
    threshold = "lines with frozen weights alone, at least 20 % of the step (set by experiment)"
    explains = ("unattributed_time", "hot_line", "launch_bound", "contiguous_conv", "unfused_pointwise")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        lines = [each for each in profile.line_calls if _frozen(each) and not asks(profile, each.location)]
        share = calls_share(lines, phases)
        said = f"{percent(share)} of each step computes with weights that learn nothing"
        if share < THRESHOLD:
            return self.passed(said)
        worst = max(lines, key=lambda each: each.share)
        weights = sum(each.frozen for each in lines)
        return self.opportunity(
            f"{said}: {weights} of them, at {worst.location}",
            self.timeline(share),
            advice="Where items are the same in each epoch, compute once what the frozen part gives for all, "
            "store it, and train on that; with random augmentations it is needed anew.",
            location=worst.location,
            evidence={
                "lines": [{"location": str(each.location), "frozen": each.frozen} for each in lines],
            },
        )


def _frozen(line: LineCalls) -> bool:
    return line.frozen > 0 and line.weights == 0 and not line.graphed

"""Tensors are made of lists of Python numbers or of small arrays, one number after the other."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.line_time import line_share
from advisor.profiles.facts.profile import Profile

THRESHOLD = 0.05  # of the step; set by experiment
NUMBERS = 1000  # in a step; some ten microseconds are spent on fewer


class TensorsFromLists(Rule):
    """`torch.tensor` of a list looks at each number by itself, in Python's own form, which takes a hundred
    times as long as a copy of as many bytes; of a list of arrays torch warns of it.

    Batches from a memory of past moves, lists of features, rewards collected in a loop are made so. Join
    arrays first, `torch.from_numpy(numpy.stack(arrays))`, or keep them in one array or tensor from the start
    and take rows of it: `states[rows]`. The ceiling is the time at that line.
    """

    family = Family.HOST
    kind = Kind.WASTE
    on_traces = "what tensors are made of: a trace does not tell"
    threshold = (
        f"a line with 5 % of the step that makes {NUMBERS} numbers of lists tensors (set by experiment)"
    )
    explains = ("slow_collate", "unattributed_time", "hot_line", "idle_device")

    def check(self, profile: Profile) -> Finding:
        phases = profile.phases
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if not profile.line_calls:
            return self.not_applicable("what tensors are made of", "needs steps that a mode can follow")
        lines = {line: line_share(profile, line) for line in profile.line_calls if line.listed >= NUMBERS}
        share = min(1.0, sum(lines.values()))
        said = f"{percent(share)} of each step makes tensors of lists"
        if share < THRESHOLD:
            return self.passed(said)
        worst = max(lines, key=lambda line: lines[line])
        return self.opportunity(
            f"{said}: {worst.listed:,} numbers, one by one, at {worst.location}",
            self.timeline(share),
            advice="Join arrays before: `torch.from_numpy(numpy.stack(arrays))`; or keep all in one tensor "
            f"and take rows of it at {worst.location}: `states[rows]`.",
            location=worst.location,
            evidence={"numbers": worst.listed, "lines": [str(line.location) for line in lines]},
        )

"""What disturbed the measurements of a result, in plain words."""

from advisor.result import wording
from advisor.result.document import ResultData, Trial
from advisor.result.words import GAINS


def disturbances(result: ResultData) -> list[str]:
    """Plain words about what disturbed the measurements; empty when nothing did."""
    said = []
    if result.noise.contended:
        said.append(
            "The machine was contended: other load ran beside the measurements and widens every interval."
        )
    if result.noise.thread_collapse:
        said.append(
            "Thread collapse: the threads of a step shared too few processors and spun. "
            "Comparisons against such a baseline flatter every change that uses fewer threads."
        )
    if result.noise.never_stable:
        count = result.noise.never_stable
        said.append(
            f"In {count} process{'' if count == 1 else 'es'} the time of a step had not settled when "
            "warm-up ended."
        )
    return [*said, *_other_clock(result), *_drifted(result)]


def _other_clock(result: ResultData) -> list[str]:
    """Said where CPU time and wall time do not agree on the gain."""
    found = result.recommendation
    cpu, wall = found.cpu_speedup, found.time_ratio if result.objective == "memory" else found.speedup
    if cpu is None or wall is None or (cpu.low <= wall.high and wall.low <= cpu.high):
        return []
    told = wording.short_ratio(cpu)
    return [f"By CPU time instead of wall time the change gives {told}: the clocks disagree."]


def _drifted(result: ResultData) -> list[str]:
    """Said where the absolute times contradict the gain: they were not taken side by side, the gain was."""
    after, found = winner(result), result.recommendation
    if found.verdict != "change" or wording.gain_of(result) != GAINS["throughput"]:
        return []
    then, now = result.baseline.throughput, None if after is None else after.throughput
    if now is None or now.unit != then.unit or min(now.low, then.low) <= 0:
        return []
    if now.low / then.high <= found.speedup.high and found.speedup.low <= now.high / then.low:
        return []
    return [
        "The pace of the machine changed between the baseline and the confirmation: "
        f"{wording.plain(then.estimate)} and {wording.plain(now.estimate)} {now.unit} were not measured side "
        "by side. The gain was, and holds."
    ]


def winner(result: ResultData) -> Trial | None:
    """The last confirmation of the recommended configuration; estimates of a search flatter, so no other."""
    confirmed = [
        trial
        for trial in result.trials
        if trial.stage == "confirm"
        and trial.state == "complete"
        and trial.config == result.recommendation.config
    ]
    return confirmed[-1] if confirmed else None

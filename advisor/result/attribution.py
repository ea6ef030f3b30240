"""By which change a finding was tested, and what became of the one that its advice speaks of.

A rule may name several knobs while its advice speaks of one of them: a gain of another one must not read as
if the advice had been tried.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from advisor.result import wording
from advisor.result.document import Adopted, Interval, Recommendation, ResultData, Trial, Value
from advisor.result.document import Finding as FindingData
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.strategies import STRATEGIES

NOT_REACHED = "the search did not come to it"
CODE = re.compile(r"`+([^`]+)`+")


def advised(advice: str, knobs: Sequence[str]) -> list[str]:
    """Those of the knobs that the code in an advice writes."""
    code = " ".join(CODE.findall(advice)).lower()
    return [knob for knob in knobs if any(_holds(code, word) for word in _written(knob))]


def _written(name: str) -> tuple[str, ...]:
    """How code writes this knob or strategy."""
    known = KNOBS.get(name) or STRATEGIES.get(name)
    return (known.written if known is not None else ()) or (name,)


def confirmed_by(
    advice: str,
    knobs: Sequence[str],
    recommendation: Recommendation,
    trials: Sequence[Trial],
    baseline: Mapping[str, Value],
) -> tuple[Interval | None, str] | None:
    """What the part of a recommendation that a finding names gave, and which it is; ``None`` without one.

    Where the advice speaks of some of the changes it is their gain that counts, not that of others.
    """
    adopted = [change for change in recommendation.changes if named(change.knob, change.to) in knobs]
    if not adopted:
        return None
    spoken = advised(advice, knobs)
    adopted = [change for change in adopted if named(change.knob, change.to) in spoken] or adopted
    known = [(gain, change) for change in adopted if (gain := _gain(change, recommendation)) is not None]
    tested = {named(change.knob, change.to) for change in adopted}
    beside = beside_advice(advice, knobs, tested, trials, baseline)
    if not known:
        said = ", ".join(map(_setting, adopted))
        return None, f"{said}, part of the recommendation; its own share was not measured{beside}"
    gain, best = max(known, key=lambda each: each[0].estimate)
    return gain, f"{_setting(best)}: {wording.short_ratio(gain)}{beside}"


def beside_advice(
    advice: str,
    knobs: Sequence[str],
    tested: Collection[str],
    trials: Sequence[Trial],
    baseline: Mapping[str, Value],
) -> str:
    """What became of the advice where something else was tested, as the end of a sentence; else empty."""
    spoken = advised(advice, knobs)
    if not advice or set(spoken) & set(tested):
        return ""
    if not spoken:
        return "; what the advice says was not tried"
    changes = [(changed(trial, baseline), trial) for trial in trials]
    alone = [trial for names, trial in changes if names and names <= set(spoken) and trial.against_baseline]
    if alone:
        best = max(alone, key=lambda t: t.against_baseline.estimate if t.against_baseline else 0.0)
        settings = ", ".join(wording.differences(best.config, baseline))
        return f"; the advice, {settings}: {wording.short_ratio(best.against_baseline)}"
    if any(names and names <= set(spoken) and trial.state == "failed" for names, trial in changes):
        return f"; failed: {', '.join(spoken)}, which the advice is about"
    apart = " by itself" if any(names & set(spoken) for names, _ in changes) else ""
    return f"; not tried{apart}: {', '.join(spoken)}, which the advice is about"


def left_out(advice: str, knobs: Sequence[str], asked: Collection[str], option: str = "--knob") -> str:
    """``--knob left num_workers out``, where the user named knobs and none of these; else empty.

    Where nobody named any, those that are never tried unnamed are said to be so.
    """
    own = dict.fromkeys(map(_option, knobs))
    if not asked and own and all(name in KNOBS and KNOBS[name].named_only for name in own):
        return f"tried only when named: {', '.join(f'{option} {name}' for name in own)}"
    if not asked or own.keys() & set(asked):
        return ""
    names = dict.fromkeys(map(_option, advised(advice, knobs) or knobs[:1]))
    return f"{option} left {', '.join(names)} out" if names else ""


def why(finding: FindingData, result: ResultData) -> str:
    """The reason of an outcome, also of a result whose advisor did not tell it yet."""
    if finding.outcome == "confirmed" and "=" not in finding.why:
        found = confirmed_by(
            finding.advice, finding.knobs, result.recommendation, result.trials, result.baseline.config
        )
        return finding.why if found is None else found[1]
    if finding.outcome == "not_tested" and finding.why == NOT_REACHED:
        return left_out(finding.advice, finding.knobs, asked(result)) or finding.why
    return finding.why


def to_try(finding: FindingData) -> list[str]:
    """The options that would try a finding's advice, where the user's own left it out."""
    knobs = advised(finding.advice, finding.knobs)
    if not knobs:
        return []
    first = f"strategy={knobs[0]}" if knobs[0] in STRATEGIES else knobs[0]
    return ["--knob", first]


def asked(result: ResultData) -> list[str]:
    """The knobs that the command named."""
    own = result.command[: result.command.index("--")] if "--" in result.command else result.command
    said = [after for option, after in pairwise(own) if option == "--knob"]
    said += [word.removeprefix("--knob=") for word in own if word.startswith("--knob=")]
    return [word.partition("=")[0] for word in said]


def changed(trial: Trial, baseline: Mapping[str, Value]) -> set[str]:
    """What a trial changed: of knobs that only follow others nothing, and a strategy by its name."""
    from advisor.tuners.knobs import KNOBS  # seventy files, which a report of today does not need

    values = Configuration(trial.config).changed(baseline)
    return {
        named(name, value) for name, value in values.items()
        if name not in KNOBS or KNOBS[name].follows not in values
    }  # fmt: skip


def named(knob: str, value: Value) -> str:
    """How rules name it: a strategy by itself."""
    return str(value) if knob == "strategy" else knob


def _option(knob: str) -> str:
    return "strategy" if knob in STRATEGIES else knob


def _holds(code: str, word: str) -> bool:
    return re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", code) is not None


def _gain(change: Adopted, recommendation: Recommendation) -> Interval | None:
    """What a change gives: its own share, or the whole where there is no other."""
    return recommendation.speedup if len(recommendation.changes) == 1 else change.contribution


def _setting(change: Adopted) -> str:
    return f"{wording.shown(change.knob, 80)}={wording.shown(change.to, 80)}"

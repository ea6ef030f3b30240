"""What a resumed study goes on with: an open confirmation, and a recommendation that was confirmed."""

from advisor.base.settings import Settings
from advisor.result.document import ResultData
from advisor.tuners.comparing.looks import Decision
from advisor.tuners.search.measured import Measured
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space


def standing(
    result: ResultData,
    before: ResultData | None,
    decision: Decision | None,
    measured: Measured,
    space: Space,
    settings: Settings,
) -> ResultData:
    """The result of a resumed study: what it recommended before stays, unless more is confirmed now.

    Both were compared with the unchanged program on fresh processes at the same level; the larger of the two
    estimates is kept. They are not raced against each other: that would cost as many processes again, and
    each holds by itself.

    Args:
        result: Of the part that runs now.
        before: Of the parts before it; ``None`` where there was none.
        decision: Of the confirmation of now, if there was one.
        measured: Processes of all confirmations.
        space: What may be tried now.
        settings: Level and least gain, by which the earlier recommendation must still hold.
    """
    if before is None or before.recommendation.verdict != "change":
        return result
    found, config = before.recommendation, Configuration(before.recommendation.config)
    held = measured.confirmed(config, min_gain=settings.min_gain, level=settings.confidence)
    if held is None or config in measured.failures or space.check(config) is not None:
        return result
    estimate = None if decision is None else decision.estimate.estimate
    if result.recommendation.verdict == "change" and estimate is not None and estimate > held.estimate:
        return result
    kept = {"recommendation": found, "planned": before.planned, "artefacts": before.artefacts}
    return result.model_copy(update=kept)


def open_confirmation(measured: Measured, space: Space, settings: Settings) -> Configuration | None:
    """The configuration whose confirmation was left open, if it may be tried now.

    Args:
        measured: Processes of all confirmations.
        space: What may be tried now.
        settings: Level and least gain of the confirmation.
    """
    for config in measured.open_confirmations(min_gain=settings.min_gain, level=settings.confidence):
        known = config.keys() == space.present.keys() and config != space.present
        if known and space.check(config) is None:
            return config
    return None

"""A quantised model is judged on the inputs that it was calibrated with."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

SHARE = 0.5  # of the inputs answered (set by experiment)
DISTINCT = 8  # calibration inputs: one batch used for everything is no judgement of accuracy


class CalibrationIsValidation(Rule):
    """Ranges of activations were taken from the very samples on which the quantised model is measured.

    Other samples have values outside these ranges, which are cut off: the accuracy measured is better than
    what users will get, and a form that loses too much may be taken for a good one. Calibrate on samples of
    the training set, and keep those for measuring apart from them.
    """

    family = Family.NUMERICS
    kind = Kind.RISK
    timed = False
    correctness = True
    on_traces = "inputs: a trace does not hold them"
    threshold = f"{percent(SHARE)} of the inputs answered calibrated the model (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        served = profile.served
        if served is None or served.calibrated_share is None:
            return self.not_applicable("calibration", "no model was seen to be calibrated and then to answer")
        said = f"{percent(served.calibrated_share)} of the inputs answered calibrated the model"
        if served.calibrated_share < SHARE or served.calibrated < DISTINCT:
            return self.passed(said)
        return self.diagnostic(
            f"{said}: accuracy on them is too good",
            advice="Calibrate with other samples than those that accuracy is measured on, such as some of "
            "the training set.",
            evidence={"calibration_inputs": served.calibrated, "share": round(served.calibrated_share, 3)},
        )

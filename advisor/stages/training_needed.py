"""What training would have to reach where a form of a served model is faster and loses too much as it is."""

from collections.abc import Mapping, Sequence

from advisor.result.document import Proposal, Trial
from advisor.stages.confirming.outcome import Outcome
from advisor.tuners.knob import Value

TRAINED = {
    "quantization": "Quantisation-aware training (a few epochs in which weights and activations are rounded "
    "as they will be) would have to bring that to at most {max_loss:.2%} at this speed",
    "pruning": "Training on after pruning would have to bring that to at most {max_loss:.2%} at this speed",
}
"""By knob: how a model learns to live with what it does to its weights."""
LEARNT = ("metric", "agreement")  # what training changes: no kernel becomes right by it
DISTILLED = "a smaller model, taught by this one (distillation), the same in {time} or less a request"


def training_needed(
    outcome: Outcome, trials: Sequence[Trial], present: Mapping[str, Value], max_loss: float
) -> list[Proposal]:
    """For each form refused for its answers, the fastest that was measured and what it would take."""
    found = []
    for name, how in TRAINED.items():
        verdict = outcome.numerics.get(name)
        if name not in outcome.rejected or verdict is None:
            continue
        if verdict.verdict != "drifts" or verdict.by not in LEARNT:
            continue
        measured = [
            (trial.against_baseline, trial)
            for trial in trials
            if trial.against_baseline is not None and trial.config.get(name) != present.get(name)
        ]
        ratio, best = max(measured, key=lambda each: each[0].estimate, default=(None, None))
        if ratio is None or best is None or best.step_ms is None or ratio.low <= 1:
            continue
        time = f"{best.step_ms.estimate:.3g} ms"
        reason = f"{verdict.reason}. {how.format(max_loss=max_loss)}; {DISTILLED.format(time=time)}"
        found.append(Proposal(knob=name, to=best.config[name], measured=ratio, reason=reason))
    return found

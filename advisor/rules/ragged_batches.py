"""Batches change their shape where each new shape costs a preparation."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import TIMELINE_ERROR, Family, Rule, percent
from advisor.profiles.facts.observed import CompileFacts
from advisor.profiles.facts.profile import LoaderFacts, Profile, RunFacts


class RaggedBatches(Rule):
    """Compiled code and cuDNN's choice of algorithms are made for one shape of input.

    A batch of a new shape, a longer sentence or the smaller last batch of an epoch, stops the step while
    code is compiled again or, with `torch.backends.cudnn.benchmark = True`, while algorithms are timed again.
    Make shapes equal: pad to a multiple of 64, put samples of similar length into a batch, or leave out the
    smaller last one with `DataLoader(..., drop_last=True)`. Or say that a size changes:
    `torch.compile(model, dynamic=True)`.
    """

    family = Family.INPUT
    kind = Kind.WASTE
    on_traces = "shapes of batches: a trace does not tell them from other tensors"
    threshold = (
        "two shapes of batches or more while torch.compile or cudnn.benchmark is on, which take at least 2 % "
        "of the run or step (set by experiment)"
    )
    knobs = ("dynamic", "batch_size")
    explains = ("recompiles", "unstable_steps", "compile_unrecovered")

    def check(self, profile: Profile) -> Finding:
        loader, run = profile.loader, profile.run
        if loader is None or loader.shapes is None:
            return self.not_applicable("shapes of batches", "need batches from a DataLoader")
        if run is None:
            return self.not_applicable("no steps were recorded")
        compiled = profile.compile if profile.compile is not None and profile.compile.compiled else None
        benchmark = bool(run.cudnn_benchmark) and profile.device.startswith("cuda")
        if compiled is None and not benchmark:
            return self.not_applicable("torch.compile or cudnn.benchmark", "both are off")
        shapes = loader.shapes + _smaller_last(loader)
        told = f"{shapes} shape{'s' * (shapes > 1)} of batches"
        if shapes < 2:
            return self.passed(told)
        if compiled is not None and compiled.recompiles_after_warmup:
            return self._recompiled(profile, run, compiled, loader, told)
        if benchmark:
            return self._timed_again(profile, loader, told)
        return self.passed(f"{told} cause 0 recompilations after the first ten steps")

    def _recompiled(
        self, profile: Profile, run: RunFacts, compiled: CompileFacts, loader: LoaderFacts, told: str
    ) -> Finding:
        if not run.wall_s:
            return self.not_applicable("time of the run", "no steps were recorded")
        share = min(1.0, compiled.recompile_seconds / run.wall_s)
        if loader.shapes == 1:
            # Only the last batch differs: its shape is compiled once, in however long a run.
            planned = _planned_s(profile)
            if planned is None:
                return self.not_applicable(
                    f"planned length of the run ({compiled.recompile_seconds:.2g} s recompile {told})",
                    "pass `--steps-planned`",
                )
            share = min(1.0, compiled.recompile_seconds / max(planned, run.wall_s))
        return self.opportunity(
            f"{percent(share)} of the run compiles again, for {told}",
            self.timeline(share, max(TIMELINE_ERROR, 1 / (1 + compiled.recompiles_after_warmup)), of="run"),
            advice=_advice(loader, compiles=True),
            location=loader.location,
            evidence={
                "shapes": loader.shapes,
                "smaller_last_batch": bool(_smaller_last(loader)),
                "recompilations": compiled.recompiles_after_warmup,
                "recompile_s": round(compiled.recompile_seconds, 3),
            },
        )

    def _timed_again(self, profile: Profile, loader: LoaderFacts, told: str) -> Finding:
        series = profile.series
        if series is None or series.mean_ms <= 0:
            return self.not_applicable("distribution of the steps", "no steps were watched")
        slow = dict(series.outlier_flags).get("shape", 0)
        share = max(0.0, 1 - series.median_ms / series.mean_ms) * slow / max(1, slow, series.outliers)
        return self.opportunity(
            f"{percent(share)} of the time goes to {slow} steps with a new shape, of {told}",
            self.timeline(share),
            advice=_advice(loader, compiles=False),
            location=loader.location,
            evidence={
                "shapes": loader.shapes,
                "smaller_last_batch": bool(_smaller_last(loader)),
                "slow_steps_with_another_shape": slow,
                "steps": series.steps,
            },
        )


def _smaller_last(loader: LoaderFacts) -> int:
    """1 if each epoch ends with a batch of fewer samples."""
    if loader.drop_last or loader.dataset_length is None or not loader.batch_size:
        return 0
    return int(loader.dataset_length > loader.batch_size and loader.dataset_length % loader.batch_size > 0)


def _planned_s(profile: Profile) -> float | None:
    if profile.run is None or profile.run.steps_total is None or profile.phases is None:
        return None
    return profile.run.steps_total * profile.phases.step_ms / 1000


def _advice(loader: LoaderFacts, *, compiles: bool) -> str:
    if loader.shapes == 1:
        left = (loader.dataset_length or 0) % (loader.batch_size or 1)
        return (
            f"Leave out the smaller last batch: `DataLoader(..., drop_last=True)`; {left} of "
            f"{loader.dataset_length} samples are then not trained on in an epoch."
        )
    if compiles:
        return (
            "Compile for changing sizes, which may round differently: `torch.compile(model, dynamic=True)`."
        )
    return (
        "Put samples of similar length into a batch and pad it to a multiple of 64, "
        "which changes the order of samples."
    )

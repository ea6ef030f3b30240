from typing import Any

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import CompileFacts, StepSeries
from advisor.profiles.facts.profile import LoaderFacts, Profile, RunFacts
from advisor.rules.ragged_batches import RaggedBatches

RECOMPILED = CompileFacts(frames=1, compiled=1, recompiles_after_warmup=7, recompile_seconds=20.0)


def a_ragged_loader(**facts: Any) -> LoaderFacts:
    return a_loader(**{"shapes": 5, "dataset_length": 320, **facts})


def compiled(loader: LoaderFacts, facts: CompileFacts | None = RECOMPILED, **run: Any) -> Finding:
    profile = a_profile(phases_ms={}, loader=loader, compile=facts, run=RunFacts(**{"wall_s": 100.0, **run}))
    return RaggedBatches().check(profile)


def benchmarked(loader: LoaderFacts, flags: tuple[tuple[str, int], ...]) -> Finding:
    series = StepSeries(
        200, median_ms=10.0, mean_ms=12.5, p5_ms=9.0, p95_ms=11.0, outliers=8, outlier_flags=flags
    )
    profile = a_gpu_profile(loader=loader, series=series, run=RunFacts(cudnn_benchmark=True))
    return RaggedBatches().check(profile)


def test_compiling_again_for_every_shape_is_a_share_of_the_run() -> None:
    finding = compiled(a_ragged_loader())
    assert finding.title == "20 % of the run compiles again, for 5 shapes of batches"
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.of) == (0.2, "run")
    assert finding.severity is Severity.MEDIUM
    assert "dynamic=True" in finding.advice


def test_code_for_changing_sizes_passes() -> None:
    finding = compiled(a_ragged_loader(), CompileFacts(frames=1, compiled=1))
    assert finding.state is State.PASSED
    assert finding.title == "5 shapes of batches cause 0 recompilations after the first ten steps"


def test_one_shape_passes() -> None:
    assert compiled(a_ragged_loader(shapes=1)).title == "1 shape of batches"


def test_a_smaller_last_batch_is_compiled_for_once_in_the_planned_run() -> None:
    loader = a_ragged_loader(shapes=1, dataset_length=330)
    finding = compiled(loader, steps_total=20_000)  # of 10 ms
    assert finding.title == "10 % of the run compiles again, for 2 shapes of batches"
    assert (
        "drop_last=True" in finding.advice and "10 of 330 samples are then not trained on" in finding.advice
    )
    assert compiled(loader, steps_total=2_000_000).state is State.PASSED
    assert compiled(loader).title.startswith("planned length of the run")
    dropping = a_ragged_loader(shapes=1, dataset_length=330, drop_last=True)
    assert compiled(dropping).state is State.PASSED


def test_algorithms_that_are_timed_again_cost_the_steps_that_come_with_a_new_shape() -> None:
    finding = benchmarked(a_ragged_loader(), (("shape", 8),))
    assert finding.title == "20 % of the time goes to 8 steps with a new shape, of 5 shapes of batches"
    assert finding.severity is Severity.MEDIUM
    assert "order of samples" in finding.advice


def test_slow_steps_for_other_reasons_are_no_matter_of_shapes() -> None:
    finding = benchmarked(a_ragged_loader(), (("gc", 8),))
    assert finding.state is State.PASSED and finding.title.startswith("0.0 %")


@pytest.mark.parametrize(
    ("profile", "missing"),
    [
        (Profile(a_machine()), "shapes of batches"),
        (a_profile(loader=a_loader()), "shapes of batches"),
        (a_profile(loader=a_loader(shapes=2)), "no steps were recorded"),
        (a_profile(loader=a_loader(shapes=2), run=RunFacts(cudnn_benchmark=True)), "torch.compile or cudnn"),
        (a_profile(loader=a_loader(shapes=2), run=RunFacts(), compile=RECOMPILED), "time of the run"),
        (a_gpu_profile(loader=a_loader(shapes=2), run=RunFacts(cudnn_benchmark=True)), "distribution of"),
    ],
)
def test_missing_facts_are_named(profile: Profile, missing: str) -> None:
    finding = RaggedBatches().check(profile)
    assert finding.state is State.NOT_APPLICABLE and finding.title.startswith(missing)

from builders import a_loader, a_profile

from advisor.advice.finding import Finding, Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.rules.duplicated_samples import DuplicatedSamples


def of_workers(share: float | None, workers: int = 2) -> Finding:
    loader = a_loader(
        iterable=True, num_workers=workers, duplicate_share=share, location=Location("train.py", 9)
    )
    return DuplicatedSamples().check(a_profile(loader=loader))


def of_ranks(*shares: float | None) -> Finding:
    ranks = tuple(RankFacts(n, 10.0, duplicate_share=share) for n, share in enumerate(shares))
    return DuplicatedSamples().check(a_profile(loader=a_loader(), ranks=ranks))


def test_an_iterable_dataset_without_shares_repeats_itself() -> None:
    finding = of_workers(0.5)
    assert finding.title == "50 % of the samples had come from another worker already"
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert "get_worker_info()" in finding.advice
    assert str(finding.location) == "train.py:9"


def test_samples_that_are_alike_by_chance_pass() -> None:
    assert of_workers(0.2).title == "20 % of the samples came twice"
    assert of_workers(0.29).state is State.PASSED
    assert of_workers(0.44, workers=4).state is State.PASSED  # all of them would be 75 %
    assert of_workers(0.46, workers=4).fired


def test_shared_work_passes() -> None:
    assert of_workers(0.0).state is State.PASSED


def test_ranks_that_read_the_same_data_need_a_sampler() -> None:
    finding = of_ranks(1.0, 1.0)
    assert finding.title == "100 % of a rank's samples are those of another rank too"
    assert "DistributedSampler" in finding.advice
    assert of_ranks(0.1, 0.1).state is State.PASSED


def test_missing_facts_are_named() -> None:
    assert of_workers(None).state is State.NOT_APPLICABLE
    assert of_ranks(None, None).state is State.NOT_APPLICABLE

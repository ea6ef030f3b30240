import pytest
from builders import a_loader, a_machine, a_profile

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.pipeline_chunks import PipelineChunks


def test_numbers_of_equal_parts_are_offered_after_the_default() -> None:
    assert PipelineChunks().choices(a_profile(loader=a_loader(batch_size=32))) == [4, 2, 8]
    assert PipelineChunks().choices(a_profile(loader=a_loader(batch_size=12))) == [4, 2]
    assert PipelineChunks().choices(a_profile(loader=a_loader(batch_size=6))) == [4, 2]


def test_where_the_batch_is_not_known_all_are_offered() -> None:
    assert PipelineChunks().choices(a_profile()) == [4, 2, 8]


@pytest.mark.parametrize(
    ("machine", "size", "reason"),
    [(a_machine(cpus_allowed=1), 32, "no stages"), (a_machine(), 9, "no other number of equal parts")],
)
def test_elsewhere_the_reason_is_said(machine: object, size: int, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        PipelineChunks().choices(a_profile(machine, loader=a_loader(batch_size=size)))  # type: ignore[arg-type]


def test_a_number_that_does_not_divide_the_batch_is_refused() -> None:
    profile = a_profile(loader=a_loader(batch_size=12))
    PipelineChunks().check(2, profile)
    PipelineChunks().check(4, profile)
    with pytest.raises(Refused, match="12 cannot be split into 8"):
        PipelineChunks().check(8, profile)


def test_the_default_is_refused_by_no_batch() -> None:
    PipelineChunks().check(4, a_profile(loader=a_loader(batch_size=7)))


def test_values_are_whole_numbers_on_a_command_line() -> None:
    assert PipelineChunks().parse("8") == 8
    with pytest.raises(ValueError, match="'3' is not one of"):
        PipelineChunks().parse("3")

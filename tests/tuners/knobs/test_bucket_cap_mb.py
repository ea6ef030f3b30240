import pytest
from builders import a_profile, a_root

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.bucket_cap_mb import BucketCapMb

MIB = 2**20


def choices(mib: float) -> list[int]:
    return BucketCapMb().choices(a_profile(roots=(a_root(parameter_bytes=int(mib * MIB)),)))


def test_sizes_that_make_the_same_single_bucket_are_tried_once() -> None:
    assert choices(3) == [25, 1, 5]
    assert choices(30) == [25, 1, 5, 100]
    assert choices(300) == [25, 1, 5, 100]


def test_gradients_that_fit_into_the_smallest_bucket_leave_nothing_to_try() -> None:
    with pytest.raises(Refused, match=r"all gradients, 0\.5 MiB, fit into one bucket"):
        choices(0.5)


def test_all_sizes_are_tried_where_that_of_the_model_is_not_known() -> None:
    assert BucketCapMb().choices(a_profile()) == [25, 1, 5, 100]


def test_the_present_size_is_torchs_own_and_needs_no_argument() -> None:
    knob = BucketCapMb()
    assert knob.present(a_profile()) == knob.default == 25
    assert "bucket_cap_mb" not in knob.change(25).snippet
    assert "bucket_cap_mb=5" in knob.change(5).snippet
    assert knob.parse("100") == 100

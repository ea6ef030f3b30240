import pytest
from builders import a_profile, a_root

from advisor.tuners.knob import Refused
from advisor.tuners.knobs.fsdp_wrap import FsdpWrap


def test_repeated_blocks_may_be_units() -> None:
    knob = FsdpWrap()
    profile = a_profile(roots=(a_root(repeated_blocks=4),))
    assert knob.choices(profile) == ["whole", "blocks"]
    assert knob.present(profile) == "whole"


@pytest.mark.parametrize("roots", [(), (a_root(repeated_blocks=0),)])
def test_without_blocks_there_is_one_unit(roots: tuple[object, ...]) -> None:
    profile = a_profile(roots=roots)
    with pytest.raises(Refused, match="no two blocks"):
        FsdpWrap().choices(profile)
    FsdpWrap().check("whole", profile)


def test_what_the_user_writes_shards_blocks_before_the_model() -> None:
    lines = FsdpWrap().change("blocks").snippet.splitlines()
    assert lines[-2:] == ["    fully_shard(block)", "fully_shard(model)"]
    assert FsdpWrap().change("whole").snippet == "fully_shard(model)"

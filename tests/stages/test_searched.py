"""The space that settings ask for."""

from dataclasses import replace
from typing import Any, cast

from builders import a_rich_profile
from confirmation_builder import Objective, some_settings

from advisor.stages.batch_size import Batches
from advisor.stages.searched import searched_space
from advisor.tuners.space.constraints import SAVE_MEMORY
from advisor.tuners.space.space import Space


def searched(objective: Objective, **asked: Any) -> Space:
    settings = some_settings(objective, **asked)
    profile = a_rich_profile()
    profile = replace(profile, roots=tuple(replace(root, repeated_blocks=4) for root in profile.roots))
    return searched_space(settings, Batches(settings, cast(Any, None)), profile, 0.0)


def test_what_saves_memory_is_tried_where_memory_is_the_objective() -> None:
    space = searched("memory")
    assert space.choices["accumulation"] == [1, 2, 4, 8]
    assert "blocks" in space.choices["activation_checkpointing"]
    assert space.check({"accumulation": 2, "activation_checkpointing": "blocks"}) is None
    assert not {entry.knob for entry in space.not_tried} & {"accumulation", "activation_checkpointing"}


def test_habits_still_restrict_everything_else_there() -> None:
    assert searched("memory").named == SAVE_MEMORY.keys()
    assert "compile" not in searched("memory", steps_planned=100).choices["execution"]


def test_memory_that_is_not_short_is_not_saved_for_the_sake_of_throughput() -> None:
    space = searched("goodput")
    assert space.choices.keys().isdisjoint({"accumulation", "activation_checkpointing"})
    assert "saves memory at the price of time" in next(
        entry.reason for entry in space.not_tried if entry.knob == "accumulation"
    )

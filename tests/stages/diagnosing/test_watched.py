"""What watching told of a program stays known, also where it is inspected in another process."""

from dataclasses import replace

from builders import a_profile

from advisor.profiles.facts.observed import MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.stages.diagnosing.watched import inspected

WATCHED = MemoryUse(
    host_peak_bytes=100, growth_steps=200, growth_bytes=5, growth_monotone=True,
    retained_graph_nodes_per_step=9.0, retained_name="curve", minor_faults_per_step=3.0,
)  # fmt: skip


def with_memory(memory: MemoryUse | None) -> Profile:
    return replace(a_profile(), memory=memory)


def test_growth_stays_known_of_a_program_that_ended_and_was_inspected_from_its_start() -> None:
    anew = MemoryUse(host_peak_bytes=80, activation_bytes=7)
    memory = inspected(with_memory(WATCHED), with_memory(anew)).memory
    assert memory == replace(WATCHED, host_peak_bytes=80, activation_bytes=7)


def test_a_process_that_goes_on_tells_its_growth_itself() -> None:
    later = replace(WATCHED, growth_steps=300, retained_name="answers", activation_bytes=7)
    assert inspected(with_memory(WATCHED), with_memory(later)).memory == later


def test_without_facts_of_memory_there_are_none() -> None:
    assert inspected(with_memory(WATCHED), with_memory(None)).memory is None
    assert inspected(with_memory(None), with_memory(WATCHED)).memory == WATCHED

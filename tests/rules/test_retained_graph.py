import pytest
from builders import a_machine, a_profile

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location, MemoryUse
from advisor.profiles.facts.profile import Profile
from advisor.rules.retained_graph import RetainedGraph


def test_an_accumulated_loss_is_named_with_its_line() -> None:
    memory = MemoryUse(
        1,
        retained_graph_nodes_per_step=12.0,
        retained_name="total",
        retained_location=Location("train.py", 40),
    )
    finding = RetainedGraph().check(a_profile(memory=memory))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.HIGH)
    assert finding.title == "12 more graph nodes alive after each step, held by `total`"
    assert finding.advice == "Store `.detach()` or `.item()` of the tensor in `total`."
    assert finding.location == Location("train.py", 40)


def test_a_holder_that_was_not_found_is_not_invented() -> None:
    finding = RetainedGraph().check(a_profile(memory=MemoryUse(1, retained_graph_nodes_per_step=3.0)))
    assert finding.title == "3 more graph nodes alive after each step"
    assert finding.location is None


def test_one_node_per_step_is_enough() -> None:
    assert RetainedGraph().check(a_profile(memory=MemoryUse(1, retained_graph_nodes_per_step=1.0))).fired


@pytest.mark.parametrize("nodes", [0.0, 0.9, -4.0])
def test_graphs_that_go_with_their_step_pass(nodes: float) -> None:
    memory = MemoryUse(1, retained_graph_nodes_per_step=nodes)
    assert RetainedGraph().check(a_profile(memory=memory)).state is State.PASSED


@pytest.mark.parametrize("profile", [Profile(a_machine()), a_profile(memory=MemoryUse(1))])
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert RetainedGraph().check(profile).state is State.NOT_APPLICABLE

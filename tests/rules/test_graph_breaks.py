import pytest
from builders import a_gpu_profile, a_machine, a_profile, a_root, a_window, an_op

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import CompileFacts, GraphBreak, Location
from advisor.profiles.facts.profile import Profile
from advisor.rules.graph_breaks import GraphBreaks

ITEM = GraphBreak(
    "Unsupported Tensor.item() call with capture_scalar_outputs=False\n  Explanation: ...",
    Location("train.py", 8),
    count=2,
)


def broken(per_step: float | None = 2.0, *breaks: GraphBreak) -> CompileFacts:
    return CompileFacts(frames=3, compiled=3, graphs=3, breaks=breaks or (ITEM,), breaks_per_step=per_step)


def test_a_break_in_every_step_is_told_with_its_line_and_reason_in_plain_words() -> None:
    finding = GraphBreaks().check(a_profile(compile=broken(2.0)))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.title == "2.0 graph breaks per step"
    assert finding.location == ITEM.location
    assert "capture_scalar_outputs = True" in finding.advice and ".item()" in finding.advice
    assert finding.evidence["reasons"] == ["train.py:8: `.item()` takes a number out of a tensor"]


def test_a_break_now_and_then_is_not_reported() -> None:
    finding = GraphBreaks().check(a_profile(compile=broken(0.9)))
    assert (finding.state, finding.title) == (State.PASSED, "0.9 graph breaks per step")


def test_one_break_per_step_is_enough() -> None:
    assert GraphBreaks().check(a_profile(compile=broken(1.0))).fired


def test_a_whole_graph_passes() -> None:
    assert GraphBreaks().check(a_profile(compile=CompileFacts(frames=1, graphs=1))).state is State.PASSED


def test_the_most_frequent_break_is_the_one_advised_on() -> None:
    rare = GraphBreak("Data-dependent branching", Location("model.py", 3))
    finding = GraphBreaks().check(a_profile(compile=broken(2.0, rare, ITEM)))
    assert finding.location == ITEM.location


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Data-dependent branching\n  Explanation", "torch.where"),
        (
            "Failed to trace builtin operator\n  Explanation: ... builtin operator `print` with",
            "Print outside",
        ),
        (
            "Failed to trace builtin operator\n  Explanation: ... operator `open`\n  Hint: (e.g. `print`)",
            "says",
        ),
        ("Data dependent operator\n  Explanation: `aten._local_scalar_dense.default`", "capture_scalar"),
        ("Call to `torch._dynamo.graph_break()`", "Remove the call"),
        ("Skip calling `torch.compiler.disable()`d function", "outside the compiled part"),
        ("A reason of a later torch\n more", "torch.compile says: A reason of a later torch."),
    ],
)
def test_a_reason_becomes_advice(reason: str, words: str) -> None:
    assert words in GraphBreaks().check(a_profile(compile=broken(1.0, GraphBreak(reason)))).advice


def test_a_break_without_a_reason_still_gets_advice() -> None:
    unknown = CompileFacts(frames=1, compiled=1, breaks_per_step=2.0)
    for facts in (unknown, broken(1.0, GraphBreak(""))):
        assert GraphBreaks().check(a_profile(compile=facts)).advice.endswith("the blocks around it.")


def test_what_runs_outside_graphs_is_the_ceiling_where_a_whole_model_is_compiled() -> None:
    finding = GraphBreaks().check(
        a_profile(
            phases_ms={"forward": 4.0, "backward": 4.0},
            compile=broken(),
            roots=(a_root(already_compiled=True),),
            window=a_window(
                an_op("CompiledFunction", 0.1, total_ms=3.0),
                an_op("CompiledFunctionBackward", 0.1, total_ms=2.0, phase="backward"),
            ),
        )
    )
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3)
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert finding.title.endswith("30 % of the step outside graphs")


def test_breaks_that_leave_nearly_all_in_graphs_pass_with_their_number() -> None:
    finding = GraphBreaks().check(
        a_profile(
            phases_ms={"forward": 4.0, "backward": 4.0},
            compile=broken(),
            roots=(a_root(already_compiled=True),),
            window=a_window(an_op("CompiledFunction", 0.1, total_ms=7.9)),
        )
    )
    assert finding.state is State.PASSED


def test_where_only_a_block_is_compiled_the_rest_is_not_counted_against_the_breaks() -> None:
    finding = GraphBreaks().check(
        a_profile(
            phases_ms={"forward": 4.0, "backward": 4.0},
            compile=broken(),
            roots=(a_root(already_compiled=False),),
            window=a_window(an_op("CompiledFunction", 0.1, total_ms=1.0)),
        )
    )
    assert finding.state is State.DIAGNOSTIC and finding.ceiling is None


def test_graphs_that_the_window_does_not_show_leave_no_ceiling() -> None:
    finding = GraphBreaks().check(
        a_profile(
            phases_ms={"forward": 4.0},
            compile=broken(),
            roots=(a_root(already_compiled=True),),
            window=a_window(),
        )
    )
    assert finding.state is State.DIAGNOSTIC


def test_a_gpu_runs_graphs_apart_from_the_host_and_has_no_such_ceiling() -> None:
    finding = GraphBreaks().check(
        a_gpu_profile(
            compile=broken(),
            roots=(a_root(already_compiled=True),),
            window=a_window(an_op("CompiledFunction", 0.1, total_ms=1.0)),
        )
    )
    assert finding.state is State.DIAGNOSTIC


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_profile(compile=CompileFacts()),
        a_profile(compile=broken(None)),
    ],
    ids=["nothing recorded", "nothing compiled", "frequency unknown"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert GraphBreaks().check(profile).state is State.NOT_APPLICABLE

"""What is looked at before a large gain is confirmed, and what waits until then, over a scripted machine."""

import pytest
from scripted_search import a_search

from advisor.tuners.knob import Value


@pytest.mark.parametrize(
    ("found", "verdict_s", "beside_s", "looked"),
    [(0.05, 20.0, 20.0, True), (0.0, 20.0, 20.0, False), (0.05, 1.0, 1.0, False), (0.05, 20.0, 60.0, False)],
)
def test_a_quick_look_at_what_promises_a_gain_goes_before_the_verdict(
    found: float, verdict_s: float, beside_s: float, looked: bool
) -> None:
    """Unless a verdict on both would take much longer."""
    choices: dict[str, list[Value]] = {
        "optimizer_implementation": ["default", "fused"], "execution": ["eager", "compile"],
        "mkldnn": ["on", "off"],
    }  # fmt: skip
    search, arena, _ = a_search(
        lambda config: 2.0 if config["optimizer_implementation"] == "fused" else 1.0, choices,
        priorities={"mkldnn": found}, startup_s=5.0,
        verdict_s=lambda config, score: beside_s if config["mkldnn"] == "off" else verdict_s,
    )  # fmt: skip
    search.run(None)
    assert search.paused and search.incumbent["optimizer_implementation"] == "fused"
    assert all(config["execution"] == "eager" for config in arena.measured)
    assert any(config["mkldnn"] == "off" for config in arena.measured) is looked


@pytest.mark.parametrize("found", [{}, {"execution": 0.3}])
def test_what_a_finding_tells_does_not_wait_for_a_verdict_that_leaves_no_time(
    found: dict[str, float],
) -> None:
    """The search has to end soon, though another verdict would fit: what usually gives something waits."""
    choices: dict[str, list[Value]] = {
        "optimizer_implementation": ["default", "fused"], "execution": ["eager", "compile"],
    }  # fmt: skip
    search, _, _ = a_search(
        lambda config: 2.0 if config["optimizer_implementation"] == "fused" else 1.0, choices,
        priorities={"optimizer_implementation": 0.5, **found}, startup_s=5.0, clock=lambda: 0.0,
        verdict_s=lambda config, score: 20.0, begin_by=lambda config, score: 5.0,
    )  # fmt: skip
    search.run(None)
    assert search.incumbent["optimizer_implementation"] == "fused" and search.paused is not bool(found)


def test_what_usually_gives_something_waits_for_the_verdict() -> None:
    """However quick a look is: neither a finding nor the profile speaks for it."""
    choices: dict[str, list[Value]] = {
        "optimizer_implementation": ["default", "fused"],
        "num_threads": [1, 2],
        "execution": ["eager", "compile"],
    }
    search, arena, _ = a_search(
        lambda config: 2.0 if config["optimizer_implementation"] == "fused" else 1.0, choices,
        priorities={"optimizer_implementation": 0.5}, verdict_s=lambda config, score: 20.0, startup_s=5.0,
    )  # fmt: skip
    search.run(None)
    assert search.paused and search.incumbent["optimizer_implementation"] == "fused"
    assert all(config["num_threads"] == 1 for config in arena.measured)


@pytest.mark.parametrize(
    ("gain", "then"), [(2.0, ["mkldnn", "num_threads"]), (1.1, ["num_threads", "mkldnn"])]
)
def test_beside_a_large_gain_what_a_finding_tells_comes_before_what_is_only_usual(
    gain: float, then: list[str]
) -> None:
    """Also where no verdict comes first, since the search is short: what there is time for is looked at."""
    choices: dict[str, list[Value]] = {
        "num_workers": [0, 2], "num_threads": [1, 2], "mkldnn": ["on", "off"],
    }  # fmt: skip
    search, arena, _ = a_search(
        lambda config: gain if config["num_workers"] == 2 else 1.0, choices,
        priorities={"mkldnn": 0.05}, verdict_s=lambda config, score: 1000.0,
    )  # fmt: skip
    search.run(None)
    tried = [
        name for config in arena.measured for name, values in choices.items() if config[name] != values[0]
    ]
    assert list(dict.fromkeys(tried)) == ["num_workers", *then]


@pytest.mark.parametrize(
    ("gain", "verdict_s", "first"), [(1.12, 60.0, True), (1.05, 60.0, False), (1.12, 600.0, False)]
)
def test_a_clear_gain_is_confirmed_before_joint_proposals(gain: float, verdict_s: float, first: bool) -> None:
    """Each takes a start or two, however little it brings: the verdict would come after all of them."""
    choices: dict[str, list[Value]] = {
        "optimizer_implementation": ["default", "fused"], "num_threads": [1, 2],
        "malloc": ["libc", "libc-tuned"], "num_interop_threads": [1, 2],
    }  # fmt: skip
    search, _, kept = a_search(
        lambda config: gain if config["optimizer_implementation"] == "fused" else 1.0, choices,
        startup_s=20.0, verdict_s=lambda config, score: verdict_s,
    )  # fmt: skip
    found = search.run(None)
    assert search.paused is first and found["optimizer_implementation"] == "fused"
    assert any(trial.stage == "search" for trial in kept.trials) is not first
    tried = {name for trial in kept.trials for name in trial.config.changed(search.space.present)}
    assert tried == set(choices)
    if first:
        search.go_on(found, search.score, float("inf"))
        assert not search.paused and any(trial.stage == "search" for trial in kept.trials)

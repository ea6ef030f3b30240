"""Where a whole run spends its time, on replayed programs that start slowly, step slowly, or gain little."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builders import a_loader, a_machine, a_rich_profile, a_window, an_op
from replayed_program import Effect, Program, above, where
from replaying import Replay, replayed

from advisor.profiles.facts.observed import HostFacts
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.facts.recorded import PointwiseChains
from advisor.tuners.knob import Value

pytestmark = pytest.mark.usefixtures("own_folder", "quick_proposals")

CHAINS = PointwiseChains(2.0, 20.0, ("aten::add", "aten::mul"), bytes_moved=4e6, bytes_fused=2e6)
SMALL = a_window(an_op(self_ms=30.0), step_ms=37.0, dispatches=200.0, pointwise=CHAINS)
ITEM_S, REST_S = 0.015, 0.01
WAITS_S = 32 * ITEM_S


def two_cpus(**facts: object) -> Profile:
    machine = a_machine(bf16_speedup=1.0, cpus_allowed=2, physical_cores=2, torch_default_threads=2)
    run = RunFacts(num_threads=2, samples_per_step=32.0, sample_source="loader", steps_seen=20)
    return replace(a_rich_profile(machine, run=run, host=HostFacts(cpu_per_wall=1.9)), **facts)  # type: ignore[arg-type]  # names of facts


def computing(config: Mapping[str, Value]) -> Mapping[str, float]:
    return {"forward": 0.32, "backward": 0.6, "optimizer": 0.06, "input_wait": 0.0}


def changed(run: Replay) -> list[dict[str, Value]]:
    """What each trial changed, in the order tried."""
    present = run.result.baseline.config
    return [
        {name: value for name, value in trial.config.items() if present.get(name) != value}
        for trial in run.result.trials if trial.stage == "screen"
    ]  # fmt: skip


def slow_start() -> Program:
    """18 s to start; items that wait 15 ms, 32 of them a batch."""

    def waiting(config: Mapping[str, Value]) -> Mapping[str, float]:
        workers = int(config.get("num_workers", 0))
        wait = WAITS_S / max(1, workers)
        return {"input_wait": wait / (wait + REST_S), "forward": 0.3 * REST_S / (wait + REST_S)}

    step_s = WAITS_S + REST_S
    effects = [
        Effect(where(num_workers=workers), step=(WAITS_S / workers + REST_S) / step_s)
        for workers in (2, 4, 8)
    ]
    loader = a_loader(batch_bytes=32 * 256, shapes_vary=False, item_ms=1e3 * ITEM_S, cpu_share=0.02)
    return Program(
        effects, step_s=step_s, startup_s=18.0, parts=waiting, profile=two_cpus(loader=loader, roots=())
    )


def test_workers_beyond_the_first_winner_are_found_though_each_start_takes_long(tmp_path: Path) -> None:
    run = replayed(slow_start(), tmp_path, budget_s=300.0)
    tried = changed(run)
    assert tried[0].get("num_workers") == 8
    most = max(trial.against_baseline.estimate for trial in run.result.trials if trial.against_baseline)
    assert most > 6.0


@pytest.mark.parametrize(("startup_s", "budget_s"), [(2.0, 40.0), (2.0, 60.0), (18.0, 120.0), (18.0, 300.0)])
def test_so_they_are_in_short_budgets_and_their_confirmation_has_room(
    startup_s: float, budget_s: float, tmp_path: Path
) -> None:
    run = replayed(replace(slow_start(), startup_s=startup_s), tmp_path, budget_s=budget_s)
    found = run.result.recommendation
    assert found.verdict == "change" and found.speedup.estimate > 6.0
    assert run.launcher.now <= 1.2 * budget_s


def test_no_smaller_number_of_workers_is_looked_at_while_the_largest_still_waits(tmp_path: Path) -> None:
    run = replayed(slow_start(), tmp_path, budget_s=600.0, knobs={"num_workers": [0, 4, 2, 1, 8]})
    assert [each.get("num_workers") for each in changed(run)] == [4, 8]


def test_layouts_and_compiling_come_first_on_long_convolutional_steps(tmp_path: Path) -> None:
    window = a_window(
        an_op("aten::convolution_backward", 500.0), an_op("aten::mkldnn_convolution", 300.0),
        step_ms=900.0, dispatches=300.0,
    )  # fmt: skip
    effects = [Effect(where(channels_last="on"), step=0.85), Effect(where(num_threads=1), step=1.9)]
    program = Program(effects, step_s=0.9, startup_s=5.0, parts=computing, profile=two_cpus(window=window))
    tried = [name for each in changed(replayed(program, tmp_path, budget_s=180.0)) for name in each]
    assert "channels_last" in tried
    for later in ("malloc", "num_threads"):
        assert later not in tried[: tried.index("channels_last")]


def test_a_gain_of_two_percent_by_compiling_does_not_take_the_budget(tmp_path: Path) -> None:
    effects = [Effect(where(execution="compile"), step=0.98)]
    program = Program(
        effects, step_s=0.037, startup_s=6.0, compile_s=25.0, parts=computing, profile=two_cpus(window=SMALL)
    )
    run = replayed(program, tmp_path, budget_s=240.0)
    assert run.result.recommendation.verdict == "keep"
    tried = {name for each in changed(run) for name in each}
    assert {"malloc", "gc_freeze", "omp_wait_policy"} <= tried
    assert all("num_threads" not in each for each in changed(run)[:-1])  # would lose: it comes last
    assert [trial for trial in run.result.trials if trial.stage == "confirm"] == []
    assert run.launcher.now < 1.2 * 240.0


def test_what_the_budget_can_tell_is_said_before_the_search(tmp_path: Path) -> None:
    short = replayed(Program(step_s=10.0, startup_s=20.0), tmp_path / "short", budget_s=300.0)
    (told,) = [line for line in short.said if "the budget tells" in line]
    assert "no gain of 20%:" in told and "--budget" in told, "too few pairs for any"
    middle = replayed(Program(step_s=1.0, startup_s=15.0, noise=0.1), tmp_path / "middle", budget_s=240.0)
    (told,) = [line for line in middle.said if "the budget tells" in line]
    assert re.search(r"no gain of 20%, one of about \d\.\dx and more: \d pairs", told)
    long = replayed(Program(), tmp_path / "long", budget_s=300.0)
    assert any("tells a gain of about" in line for line in long.said)


def test_what_was_not_reached_is_tried_on_top_of_what_was_confirmed(tmp_path: Path) -> None:
    effects = [
        Effect(where(num_workers=2), step=0.4),
        Effect(where(malloc="libc-tuned"), step=0.7),
    ]
    knobs: dict[str, list[Value] | None] = {"num_workers": [0, 2], "malloc": ["libc", "libc-tuned"]}
    program = Program(effects, step_s=0.02, startup_s=2.0)
    found = replayed(program, tmp_path, knobs=knobs, budget_s=600.0).result.recommendation
    assert found.config == {"num_workers": 2, "malloc": "libc-tuned"}


def test_changes_that_lose_alone_and_gain_together_are_recommended_together(tmp_path: Path) -> None:
    effects = [
        Effect(where(num_workers=2, malloc="libc"), step=1.3),
        Effect(where(num_workers=0, malloc="libc-tuned"), step=1.2),
        Effect(where(num_workers=2, malloc="libc-tuned"), step=0.7),
    ]
    knobs: dict[str, list[Value] | None] = {"num_workers": [0, 2], "malloc": ["libc", "libc-tuned"]}
    run = replayed(Program(effects), tmp_path, knobs=knobs, budget_s=600.0)
    assert run.result.recommendation.config == {"num_workers": 2, "malloc": "libc-tuned"}


def photos(item_s: float) -> Program:
    """Steps of 0.3 s or more: photos that wait, an update that could be fused, and computing."""
    update_s, rest_s, start_s = 0.075, 0.1, 3.5
    making_s = 16 * item_s
    step_s = making_s + update_s + rest_s

    def parts(config: Mapping[str, Value]) -> dict[str, float]:
        update = update_s * (0.2 if config.get("optimizer_implementation") == "fused" else 1.0)
        workers = int(config.get("num_workers", 0))
        wait = max(0.0, making_s / workers - update - rest_s) if workers else making_s
        return {"input_wait": wait, "optimizer": update, "forward": 0.3 * rest_s, "backward": 0.7 * rest_s}

    def shares(config: Mapping[str, Value]) -> dict[str, float]:
        seconds = parts(config)
        return {name: each / sum(seconds.values()) for name, each in seconds.items()}

    effects = [
        Effect(
            lambda config, workers=workers, form=form: (  # type: ignore[misc]  # bound at each turn
                config.get("num_workers", 0) == workers
                and config.get("optimizer_implementation", "default") == form
            ),
            step=sum(parts({"num_workers": workers, "optimizer_implementation": form}).values()) / step_s,
        )
        for workers in (0, 1, 2, 4, 8)
        for form in ("default", "fused")
    ]
    window = a_window(
        an_op("aten::convolution_backward", 40.0), an_op("aten::mkldnn_convolution", 20.0),
        step_ms=1e3 * step_s, dispatches=150.0,
    )  # fmt: skip
    loader = a_loader(
        batch_size=16, batch_bytes=16 * 12288, shapes_vary=False, item_ms=1e3 * item_s, cpu_share=0.1,
        dataset_length=3200,
    )  # fmt: skip
    run = RunFacts(num_threads=2, samples_per_step=16.0, sample_source="loader", steps_seen=20)
    return Program(
        effects, step_s=step_s, startup_s=start_s, parts=shares, noise=0.03, between=0.01,
        profile=two_cpus(loader=loader, window=window, run=run),
        without={"loader": 1 - making_s / step_s, "optimizer": 1 - update_s / step_s},
    )  # fmt: skip


def test_once_nothing_waits_what_a_step_computes_is_looked_at_before_more_of_the_loader(
    tmp_path: Path,
) -> None:
    run = replayed(photos(0.0075), tmp_path, budget_s=180.0)
    assert changed(run)[:2] == [{"num_workers": 1}, {"num_workers": 1, "optimizer_implementation": "fused"}]
    found = run.result.recommendation
    assert found.verdict == "change"
    assert (found.config["num_workers"], found.config["optimizer_implementation"]) == (1, "fused")
    assert run.launcher.now < 1.2 * 180.0


@pytest.mark.parametrize(("item_s", "seed"), [(0.005, 0), (0.005, 4), (0.0075, 7)])
def test_what_a_finding_names_is_added_though_a_noisy_verdict_took_much_of_the_budget(
    item_s: float, seed: int, tmp_path: Path
) -> None:
    """What would only be told beside the verdict, such as other batches, does not keep the time for it."""
    program = replace(photos(item_s), noise=0.15, between=0.03, seed=seed)
    run = replayed(program, tmp_path, budget_s=180.0)
    found = run.result.recommendation
    assert {"num_workers", "optimizer_implementation"} <= {change.knob for change in found.changes}
    assert run.launcher.now <= 1.1 * 180.0


def test_workers_follow_a_step_that_got_shorter_and_waits_again(tmp_path: Path) -> None:
    run = replayed(photos(0.02), tmp_path, budget_s=180.0)
    fused = {"optimizer_implementation": "fused"}
    assert changed(run)[:3] == [{"num_workers": 2}, {"num_workers": 2} | fused, {"num_workers": 4} | fused]
    assert run.result.recommendation.config["num_workers"] == 4
    assert run.launcher.now < 1.2 * 180.0


def test_a_second_search_is_announced_only_where_a_trial_follows(tmp_path: Path) -> None:
    told = "time is left"
    for number, budget_s in enumerate((60.0, 180.0, 300.0)):
        said = replayed(photos(0.0075), tmp_path / str(number), budget_s=budget_s).said
        for place, line in enumerate(said):
            if told in line:
                assert said[place + 1].startswith("trial "), said[place:]


def test_what_can_only_shorten_a_wait_that_is_gone_is_not_tried(tmp_path: Path) -> None:
    program = Program(
        [Effect(above(num_workers=0), step=0.25)], startup_s=20.0, step_s=0.5, without={"loader": 0.25},
        parts=lambda config: {"input_wait": 0.0 if config.get("num_workers") else 0.75, "forward": 0.2},
    )  # fmt: skip
    knobs: dict[str, list[Value] | None] = {"num_workers": None, "persistent_workers": None, "placebo": None}
    run = replayed(program, tmp_path, knobs=knobs, budget_s=600.0)
    assert run.result.recommendation.verdict == "change"
    assert run.result.recommendation.config["num_workers"] != 0
    assert all("persistent_workers" not in each for each in changed(run))
    (reason,) = (each.reason for each in run.result.not_tried if each.knob == "persistent_workers")
    assert reason == "with the best settings found 0.0% of the step waits for data"

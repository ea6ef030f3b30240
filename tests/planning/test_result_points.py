"""Strategies that a result measured become points, and are compared with odds."""

import json
from pathlib import Path
from typing import Any

import pytest
from planned_results import a_result, with_memory
from result_builder import a_profile_result
from strategy_builder import under

from advisor.base.errors import UsageError
from advisor.cli import main
from advisor.planning.effects.loading import Supply
from advisor.planning.odds import compare
from advisor.planning.places import Measured, Place, Point, shared_bytes
from advisor.planning.plan import make_plan
from advisor.planning.result_memory import memory_of
from advisor.planning.result_points import measured_strategies
from advisor.result.document import RankUse


def test_each_strategy_gets_its_points_and_those_of_one_process() -> None:
    found = measured_strategies([a_result()])
    assert {"ddp", "fsdp"} <= found.keys()
    assert Point(Place(2, 1, 32), 90, step_bytes=1e6) in found["fsdp"].points
    assert found["fsdp"].peaks[Place(2, 1, 32)] == 10**9 // 2  # of the two, on the host
    assert found["fsdp"].points[0].place.ranks == 1


def test_what_was_measured_beside_the_step_is_handed_on() -> None:
    result = a_result()
    phases = result.profile.phases_ms | {"input_wait": 6.0}
    result = result.model_copy(update={"profile": result.profile.model_copy(update={"phases_ms": phases})})
    alone, two = (
        measured_strategies([result])["ddp"].points[0],
        measured_strategies([result])["ddp"].points[-1],
    )
    assert (two.exposed_ms, two.step_bytes, two.loader_ms) == (7.5, 1e6, None)
    assert alone.loader_ms == 6 and alone.exposed_ms is None
    plan = make_plan([alone, two], [Place(4, 1, 32)])
    told = {row.what: row.tag for row in plan.basis}
    assert told["exposed communication"] == told["1 MB shared in a step"] == "measured"
    assert any(what.startswith("wait for data: at most") for what in told)
    assert "loader of a node: 1,667 samples/s at most so far, with 1 rank waiting for it" in told
    assert "share the loader" in plan.predictions[0].note


def test_what_an_item_takes_is_a_ceiling_of_a_node() -> None:
    result = a_result()
    assert measured_strategies([result])["ddp"].supply is None
    more = {"item_cpu_ms": 0.2, "item_read_bytes": 50_000, "rates": {"storage_read": 1e8}}
    update = {
        "profile": result.profile.model_copy(update=more),
        "machine": {**result.machine, "cpus_allowed": 4},
    }
    found = measured_strategies([result.model_copy(update=update)])["ddp"]
    assert found.supply == Supply(0.0002, 4, 50_000, 1e8)
    plan = make_plan(found.points, [Place(64, 1, 32)], supply=found.supply, far=True)
    told = {row.what: row.tag for row in plan.basis}
    assert told["4 CPUs of a node prepare 20,000 samples/s at most, at 0.2 ms each"] == "measured"
    assert told["storage of a node gives 2,000 samples/s where nothing is cached"] == "measured"
    assert "the CPUs of a node prepare no more samples" in plan.predictions[0].note


def test_parameters_gradients_and_epochs_are_handed_on() -> None:
    result = with_memory()
    more = {"parameters": 25 * 10**6, "epoch_samples": 60_000}
    result = result.model_copy(update={"profile": result.profile.model_copy(update=more)})
    found = measured_strategies([result])
    alone = found["ddp"].points[0]
    assert (alone.parameters, alone.step_bytes, alone.epoch_samples) == (25e6, 1e8, 60_000)
    assert shared_bytes(found["fsdp"].points) == 1e6  # as two ranks measured it


def test_what_one_of_four_sends_is_told_as_what_is_shared() -> None:
    """Each of n ranks of a ring sends 2(n-1)/n of it."""
    result = a_result()
    trial = result.trials[-1]
    four = trial.model_copy(
        update={"config": under("fsdp", 4), "ranks": RankUse(count=4, bytes_per_step=1.5e6)}
    )
    found = measured_strategies([result.model_copy(update={"trials": [*result.trials, four]})])
    assert found["fsdp"].points[-1].step_bytes == 1e6


def test_a_trial_with_more_changed_or_refused_is_no_point() -> None:
    found = measured_strategies([a_result()])
    assert "zero" not in found
    assert sum(point.place.ranks == 2 for point in found["fsdp"].points) == 1


def served(**settings: int | str) -> dict[str, Measured]:
    """Two workers of a parameter server under some settings, beside results of other strategies."""
    result = a_result()
    report = {"staleness_median": 1, "staleness_largest": 3}
    trial = result.trials[-1].model_copy(
        update={
            "config": under("parameter_server", 2, **settings),
            "ranks": RankUse(count=2, bytes_per_step=1e6, report=report),
        }
    )
    return measured_strategies([result.model_copy(update={"trials": [*result.trials, trial]})])


def test_servers_that_wait_for_nobody_are_a_strategy_of_their_own() -> None:
    one = served(staleness="unbounded")["async_parameter_server"]
    assert one.points[-1].step_ms == 90 and one.ages == {Place(2, 1, 32): (1.0, 3)}
    plan = make_plan(
        one.points, [Place(8, 1, 32)], strategy="async_parameter_server", servers=one.servers, ages=one.ages
    )
    assert [law.name for law in plan.laws] == ["async_parameter_server"]
    assert "up to 7 updates old" in plan.predictions[0].note
    told = [row.what for row in plan.basis if row.tag == "measured"]
    assert "age of gradients of 2 ranks, in updates: 1 in the median, 3 at most" in told


def test_servers_that_wait_for_all_have_fresh_gradients() -> None:
    assert served(staleness="0")["parameter_server"].ages == {}


def test_two_servers_share_the_bytes() -> None:
    """With one server its link carries every worker's gradients, with two each carries half."""
    found = served(servers=2)["parameter_server, 2 servers"]
    assert found.servers == 2
    points = [Point(Place(1, 1), 100), Point(Place(2, 2), 300), Point(Place(4, 4), 500)]
    rows = [
        make_plan(points, [Place(16, 16)], strategy="parameter_server", servers=servers).predictions[0]
        for servers in (1, 16)
    ]
    assert rows[0].step_ms.estimate > rows[1].step_ms.estimate


def test_a_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="no measured step"):
        measured_strategies([a_profile_result()])


def points(growth: float) -> list[Point]:
    return [Point(Place(2**k, 1, 32), 100 * growth**k) for k in range(4)]


def test_a_clear_difference_is_told_with_its_odds() -> None:
    plans = [
        make_plan(points(growth), [Place(8, 1, 32), Place(16, 2, 32)], strategy=name)
        for name, growth in (("ddp", 1.0), ("fsdp", 1.5))
    ]
    assert [row.odds[0][0] for row in compare(plans)] == ["ddp", "ddp"]
    assert "would be fastest" in compare(plans)[0].sentence


def test_what_cannot_be_told_apart_is_said() -> None:
    plans = [make_plan(points(1.02), [Place(64, 8, 32)], strategy=name) for name in ("ddp", "fsdp")]
    (row,) = compare(plans)
    assert "cannot be told apart" in row.sentence
    assert sum(odds for _, odds in row.odds) == pytest.approx(1)


def test_the_command_tells_the_memory_of_every_strategy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    path.write_text(with_memory().to_json())
    assert main(["plan", str(path), "--ranks", "2,8", "--format", "json", "--gpu", "T4"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {(row["strategy"], row["ranks"]): row for row in document["memory"]}
    assert rows["fsdp", 2]["basis"] == "measured" and rows["fsdp", 2]["peak_bytes"] == 10**9 // 2
    assert rows["fsdp", 8]["peak_bytes"] < rows["fsdp", 2]["peak_bytes"]
    assert rows["zero2", 8]["basis"] == "categories"
    assert {row["capacity_bytes"] for row in rows.values()} == {16 * 2**30}
    peaks = {row["ranks"]: row["peak_bytes"] for row in document["predictions"] if row["strategy"] == "fsdp"}
    assert peaks[8]["estimate"] == rows["fsdp", 8]["peak_bytes"]
    for format in ("text", "md"):
        assert main(["plan", str(path), "--ranks", "2,8", "--format", format]) == 0
        assert "Memory of one rank" in capsys.readouterr().out


def test_the_page_and_the_data_go_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "result.json", tmp_path / "plan"
    path.write_text(with_memory().to_json())
    asked = ["plan", str(path), "--ranks", "2,8", "--price", "2", "--until", "1e8", "--gpu", "T4"]
    assert main([*asked, "--out", str(out)]) == 0
    assert {each.name for each in out.iterdir()} == {"plan.html", "plan.json", "plan.md"}
    page = (out / "plan.html").read_text()
    for words in (
        "Strategies compared",
        "Speed-up",
        "Parts of a step",
        "Time against price",
        "Memory of one rank",
    ):
        assert words in page
    ids = [each.split('"')[0] for each in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    assert "http" not in page.replace("http-equiv", "")
    assert main([*asked, "--format", "html"]) == 0
    assert capsys.readouterr().out == page


def test_an_unknown_gpu_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    path.write_text(with_memory().to_json())
    assert main(["plan", str(path), "--gpu", "Abacus"]) == 2
    assert "no data sheet of Abacus" in capsys.readouterr().err


def test_the_command_plans_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    path.write_text(a_result().to_json())
    assert main(["plan", str(path), "--ranks", "2,8", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"ddp", "fsdp"} <= {row["strategy"] for row in document["predictions"]}
    assert {row["ranks"] for row in document["odds"]} == {2, 8}
    assert main(["plan", str(path), "--ranks", "2,8"]) == 0
    assert "Strategies compared" in capsys.readouterr().out


def test_one_rank_trains_the_same_way_under_all_strategies() -> None:
    found = measured_strategies([a_result()])
    plans = [
        make_plan(found[name].points, [Place(1, 1, 32), Place(2, 1, 32)], strategy=name)
        for name in ("ddp", "fsdp")
    ]
    assert [row.ranks for row in compare(plans)] == [2]
    assert compare(plans)[0].sentence == "2 ranks: ddp would be fastest (ddp 100%)"


def test_what_trials_tell_of_a_division_counts_for_other_ranks() -> None:
    result = with_memory()
    told: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
        "pipeline": ({"micro_batches": 8, "schedule": "1f1b"}, {}),
        "tensor_parallel": ({"parameter_bytes": 6e7}, {}),  # of 1e8: 80 % divided
        "parameter_server": ({}, {"servers": 2}),
    }
    trials = [
        result.trials[-1].model_copy(
            update={
                "config": {**under(name, 2), **more},
                "ranks": RankUse(count=2, bytes_per_step=1e6, report=report),
            }
        )
        for name, (report, more) in told.items()
    ]
    result = result.model_copy(update={"trials": [*result.trials, *trials]})
    found = measured_strategies([result])
    memory = memory_of([result], found)
    assert memory is not None
    said = {row.strategy: row.assumed for row in memory.table([Place(8, 1, 32)])}
    assert said["pipeline"] == "1f1b, 8 micro-batches, equal stages"
    assert said["tensor_parallel"] == "80% of parameters divided"
    assert said["server"] == "of parameters, one of 2"
    assert said["ddp"] == ""
    assert found["pipeline"].points[-1].micro_batches == 8

"""Programs of many shapes behave the same bare and watched, and what is seen of them is right."""

import json
from pathlib import Path
from typing import Any

import pytest
from warm import Warm

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[1] / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))

Seen = dict[str, Any]


def run_jobs(server: Warm, folder: Path, jobs: list[dict[str, Any]]) -> None:
    jobs = [{**job, "script": str(SCRIPTS / f"{job['script']}.py")} for job in jobs]
    done = server.run(HERE / "driver.py", folder, json.dumps(jobs))
    assert done.returncode == 0, done.stderr


CHANGED: list[tuple[str, str, dict[str, Any]]] = [
    ("own_arguments", "Events", {"args": ["--steps", "3"]}),
    ("own_arguments", "Events", {"args": ["--seed", "5"]}),
    ("own_arguments", "Events", {"seed_offset": 5}),
    ("gan", "Events", {}),
    ("memory_map", "Autocast", {}),
    ("short", "ScaledRate", {}),
    ("accumulation", "Workers", {}),
    ("spawned_workers", "NoWorkers", {}),
    ("trainer_like", "Doubled", {}),
    ("batch_sampler", "Doubled", {}),
    ("short", "Skipping", {}),
    ("gan", "Scaling", {}),
    ("memory_map", "Compiled", {}),
    ("iterable_dataset", "Wrapped", {}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, _warm_server: Warm) -> Path:
    """Every program, bare and watched, and some under a change."""
    folder = tmp_path_factory.mktemp("runs")
    modes = ("bare", "watched")
    jobs = [{"name": f"{name}-{mode}", "script": name, "mode": mode} for name in NAMES for mode in modes]
    jobs += [
        {"name": f"{job_name(*job)}-watched", "script": job[0], "mode": "watched", "change": job[1], **job[2]}
        for job in CHANGED
    ]
    run_jobs(_warm_server, folder, jobs)
    return folder


def job_name(script: str, change: str, more: dict[str, Any]) -> str:
    return "-".join([script, change, *(str(value) for value in more.values())]).replace("/", "_")


def printed(folder: Path, name: str) -> str:
    return (folder / f"{name}.out").read_text()


def seen(folder: Path, name: str) -> Seen:
    result: Seen = json.loads((folder / f"{name}-watched.json").read_text())
    return result


def changed(folder: Path, script: str, change: str, **more: Any) -> tuple[str, Seen]:
    """What a program prints, and what is seen of it, under a change of the driver."""
    name = job_name(script, change, more)
    return printed(folder, f"{name}-watched"), seen(folder, name)


def numbers(text: str) -> list[float]:
    return [float(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_a_watched_program_prints_what_it_prints_bare(folder: Path, name: str) -> None:
    bare = printed(folder, f"{name}-bare")
    assert bare and printed(folder, f"{name}-watched") == bare


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("accumulation", "optimizer", 16), ("batch_sampler", "optimizer", 10), ("gan", "optimizer", 12),
        ("iterable_dataset", "optimizer", 10), ("lbfgs", "optimizer", 6), ("lightning_like", "optimizer", 10),
        ("manual_sgd", "backward", 20), ("memory_map", "optimizer", 15), ("own_scaler", "optimizer", 11),
        ("short", "optimizer", 7), ("spawned_workers", "optimizer", 8), ("step_zero", "optimizer", 12),
        ("trainer_like", "optimizer", 12), ("wgan", "optimizer", 20), ("catches_everything", "optimizer", 19),
    ],
)  # fmt: skip
def test_steps_are_counted_by_the_strongest_kind_of_tick(
    folder: Path, name: str, kind: str, count: int
) -> None:
    steps = seen(folder, name)["steps"]
    assert ([step["kind"] for step in steps], seen(folder, name)["profile"]["run"]["steps_seen"]) == (
        [kind] * count,
        count,
    )


@pytest.mark.parametrize(
    ("name", "roots", "optimizers"),
    [
        ("gan", ["Generator", "Discriminator"], ["Adam", "Adam"]),
        ("wgan", ["Sequential", "Sequential"], ["RMSprop", "RMSprop"]),
        ("lightning_like", ["Task"], ["Adam"]),
        ("manual_sgd", ["Linear"], []),
        ("memory_map", ["Language"], ["AdamW"]),
        ("own_arguments", ["Net"], ["Adam"]),
        ("saves_and_copies", ["Derived", "Plain"], ["SGD"]),
        ("lbfgs", ["Sequential"], ["LBFGS"]),
    ],
)
def test_roots_and_optimizers_are_found(
    folder: Path, name: str, roots: list[str], optimizers: list[str]
) -> None:
    profile = seen(folder, name)["profile"]
    assert [root["name"] for root in profile["roots"]] == roots
    assert [optimizer["name"] for optimizer in profile["optimizers"]] == optimizers


@pytest.mark.parametrize("name", ["short", "memory_map", "iterable_dataset", "batch_sampler", "step_zero"])
def test_losses_are_those_that_the_program_prints(folder: Path, name: str) -> None:
    lines = [line for line in printed(folder, f"{name}-bare").splitlines() if line[0].isdigit()]
    assert [f"{loss:.6f}" for loss in seen(folder, name)["losses"]] == lines


def test_accumulated_losses_are_summed_per_update(folder: Path) -> None:
    result = seen(folder, "accumulation")
    assert result["losses"] == pytest.approx(numbers(printed(folder, "accumulation-bare")), abs=2e-6)
    assert result["profile"]["run"]["backwards_per_step"] == 4


def test_of_many_closures_the_first_loss_counts(folder: Path) -> None:
    result = seen(folder, "lbfgs")
    assert result["losses"] == pytest.approx(numbers(printed(folder, "lbfgs-bare")), abs=1e-6)
    assert result["profile"]["run"]["backwards_per_step"] > 10
    assert all(set(step["phases_ns"]) >= {"forward", "backward", "optimizer"} for step in result["steps"])


def test_of_two_optimizers_the_losses_of_the_first_are_kept(folder: Path) -> None:
    of_generator = [float(line.split()[0]) for line in printed(folder, "gan-bare").splitlines()]
    assert seen(folder, "gan")["losses"] == pytest.approx(of_generator, abs=1e-6)


def test_the_order_of_optimizers_gives_the_period(folder: Path) -> None:
    runs = [seen(folder, name)["profile"]["run"] for name in ("gan", "wgan", "short")]
    assert [run["period"] for run in runs] == [1, 5, 1]


def test_gradient_norms_are_kept_per_update(folder: Path) -> None:
    norms = seen(folder, "short")["grad_norms"]
    assert len(norms) == 7 and all(norm > 0 for norm in norms)


def test_a_loss_reduced_by_sum_is_told_from_a_mean(folder: Path) -> None:
    runs = [seen(folder, name)["profile"]["run"] for name in ("manual_sgd", "lbfgs", "accumulation")]
    assert [run["sum_reduced_loss"] for run in runs] == [True, False, False]


def test_a_loader_built_from_another_shows_the_settings_of_the_first(folder: Path) -> None:
    loader = seen(folder, "trainer_like")["profile"]["loader"]
    assert {
        name: loader[name]
        for name in ("batch_size", "shuffle", "own_batch_sampler", "dataset_length", "batch_bytes")
    } == {
        "batch_size": 8,
        "shuffle": True,
        "own_batch_sampler": False,
        "dataset_length": 96,
        "batch_bytes": 448,
    }
    assert Path(loader["location"]["file"]).name == "trainer_like.py"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("batch_sampler", {"own_batch_sampler": True, "batch_size": None, "shapes_vary": True}),
        ("iterable_dataset", {"iterable": True, "batch_size": 16, "dataset_length": None}),
        (
            "spawned_workers",
            {"num_workers": 1, "prefetch_factor": 2, "multiprocessing_context": "spawn", "item_ms": None},
        ),
        ("accumulation", {"drop_last": True, "shuffle": True, "epochs_started": 2, "shapes_vary": False}),
        ("step_zero", {"dataset": 1, "dataset_length": 256}),
    ],
)
def test_the_training_loader_is_described(folder: Path, name: str, expected: dict[str, Any]) -> None:
    loader = seen(folder, name)["profile"]["loader"]
    assert {field: loader[field] for field in expected} == expected


def test_items_are_timed_where_they_are_fetched_in_the_main_process(folder: Path) -> None:
    loader = seen(folder, "accumulation")["profile"]["loader"]
    assert 0 < loader["item_ms"] < 50 and 0 < loader["collate_ms"] < 50 and 0 <= loader["cpu_share"] <= 1


def test_without_a_data_loader_samples_are_those_that_enter_the_root(folder: Path) -> None:
    profile = seen(folder, "memory_map")["profile"]
    run = profile["run"]
    assert (profile["loader"], run["samples_per_step"], run["sample_source"]) == (None, 8, "root")
    assert profile["roots"][0]["repeated_blocks"] == 3


def test_samples_of_the_loader_come_first(folder: Path) -> None:
    run = seen(folder, "accumulation")["profile"]["run"]
    assert (run["samples_per_step"], run["sample_source"]) == (32, "loader")


def test_steps_with_evaluation_carry_its_flag_and_time(folder: Path) -> None:
    result = seen(folder, "step_zero")
    flagged = [step["number"] for step in result["steps"] if "evaluation" in step["flags"]]
    assert flagged == [0, 1, 6, 11]  # before the first step, then after steps 0, 5 and 10
    assert all("evaluation" in result["steps"][index]["phases_ns"] for index in flagged)
    assert result["profile"]["run"]["evaluation_s"] > 0


def test_saves_are_flagged_and_timed(folder: Path) -> None:
    result = seen(folder, "writes_files")
    assert [step["number"] for step in result["steps"] if "save" in step["flags"]] == [6]
    assert result["profile"]["run"]["save_s"] > 0


def test_epochs_are_flagged(folder: Path) -> None:
    steps = seen(folder, "accumulation")["steps"]
    assert [step["number"] for step in steps if "epoch" in step["flags"]] == [0, 8]


def test_the_programs_own_scaler_autocast_and_skipped_update_are_seen(folder: Path) -> None:
    result = seen(folder, "own_scaler")
    run = result["profile"]["run"]
    assert (run["own_scaler"], run["own_autocast"]) == (True, True)
    assert [step["number"] for step in result["steps"] if "skipped_update" in step["flags"]] == [4]
    unscaled = [f"{loss:.6f}" for loss in result["losses"]]
    assert unscaled == printed(folder, "own_scaler-bare").split()


def test_an_update_left_by_an_exception_does_not_stop_the_clock(folder: Path) -> None:
    assert "caught" in printed(folder, "catches_everything-bare")
    assert len(seen(folder, "catches_everything")["steps"]) == 19


def test_nothing_was_overwritten(folder: Path) -> None:
    assert {name: seen(folder, name)["missing"] for name in NAMES} == {name: [] for name in NAMES}


def test_the_script_reads_its_own_arguments(folder: Path) -> None:
    text, result = changed(folder, "own_arguments", "Events", args=["--steps", "3"])
    assert len(text.splitlines()) == len(result["steps"]) == 3
    assert result["profile"]["roots"][0]["takes_4d_input"] is True


def test_events_come_in_their_order(folder: Path) -> None:
    _, result = changed(folder, "gan", "Events")
    assert result["calls"][:8] == [
        "process", "loader", "clear", "model Generator", "model Discriminator",
        "optimizer Adam", "clear", "optimizer Adam",
    ]  # fmt: skip


def test_autocast_around_the_root_changes_the_numbers_a_little(folder: Path) -> None:
    text, result = changed(folder, "memory_map", "Autocast")
    bare = [float(line.split()[-1]) for line in printed(folder, "memory_map-bare").splitlines()]
    losses = [float(line.split()[-1]) for line in text.splitlines()]
    assert losses != bare and losses == pytest.approx(bare, rel=0.02)
    assert result["calls"] == ["Language"] * 15
    assert not result["profile"]["run"]["own_autocast"]


def test_a_changed_learning_rate_acts_at_each_update(folder: Path) -> None:
    text, result = changed(folder, "short", "ScaledRate")
    losses, bare = numbers(text), numbers(printed(folder, "short-bare"))
    assert losses[0] == bare[0] and losses[1:] != bare[1:]
    assert result["profile"]["optimizers"][0]["lr"] == 0.05


def test_workers_can_be_added(folder: Path) -> None:
    text, result = changed(folder, "accumulation", "Workers")
    assert text == printed(folder, "accumulation-bare")
    assert (result["asked"], [loader["num_workers"] for loader in result["effective"]]) == ([0], [1])


def test_without_workers_their_options_are_dropped(folder: Path) -> None:
    text, result = changed(folder, "spawned_workers", "NoWorkers")
    assert text == printed(folder, "spawned_workers-bare")
    assert (result["asked"], [loader["num_workers"] for loader in result["effective"]]) == ([1], [0])


def test_a_doubled_batch_is_not_doubled_again_in_a_second_loader(folder: Path) -> None:
    _, result = changed(folder, "trainer_like", "Doubled")
    assert [step["loader_samples"] for step in result["steps"]] == [16] * 6
    assert (result["applied"], result["refused"]) == (["change"], {})
    assert result["profile"]["loader"]["batch_size"] == 8


def test_a_batch_size_is_refused_where_the_program_samples_its_batches(folder: Path) -> None:
    _, result = changed(folder, "batch_sampler", "Doubled")
    assert result["refused"] == {"change": "batches come from the program's own sampler"}


def test_skipped_updates_leave_the_parameters_alone(folder: Path) -> None:
    _, result = changed(folder, "short", "Skipping")
    assert len(result["steps"]) == 7
    assert all("skipped_update" in step["flags"] for step in result["steps"])


def test_scaling_the_loss_and_unscaling_gradients_is_invisible(folder: Path) -> None:
    text, result = changed(folder, "gan", "Scaling")
    assert text == printed(folder, "gan-bare")
    assert result["losses"] == seen(folder, "gan")["losses"]
    assert result["calls"] == ["Generator", "Discriminator"]


def test_compiling_the_root_meets_no_wrapper_of_ours(folder: Path) -> None:
    text, result = changed(folder, "memory_map", "Compiled")
    assert text == printed(folder, "memory_map-bare")
    assert (result["calls"], result["recompiled"]) == (["Language"], 1)


def test_a_wrapped_iterator_delivers_the_same_batches(folder: Path) -> None:
    text, result = changed(folder, "iterable_dataset", "Wrapped")
    assert text == printed(folder, "iterable_dataset-bare")
    assert result["calls"] == ["batch"] * 10


def test_an_offset_shifts_the_seeds_that_a_program_sets(folder: Path) -> None:
    text, _ = changed(folder, "own_arguments", "Events", seed_offset=5)
    same, _ = changed(folder, "own_arguments", "Events", args=["--seed", "5"])
    assert text == same != printed(folder, "own_arguments-bare")

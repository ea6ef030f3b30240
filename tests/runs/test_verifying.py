"""Two programs against each other: which is started, how they are compared, when a promise is kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from builders import a_machine, a_profile
from result_builder import a_ratio

from advisor.base.errors import UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.patching.applying import make_patch
from advisor.report.pages.apply_page import sentence
from advisor.result.apply import Verification
from advisor.result.document import Value
from advisor.runs.verify import ORIGINAL, PATCHED, MemoryPrograms, Programs, judged, refuse_promise
from advisor.runs.verify import PROGRAM as NAME
from advisor.stages.bench import MeasuredBench
from advisor.tuners.comparing.ways import BATON, WINDOWS
from advisor.tuners.comparing.windows import queue_depth
from advisor.tuners.knobs import KNOBS

PROMISED = a_ratio(1.42, 1.38, 1.46)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.36, 1.44, "met"),
        (1.20, 1.39, "met"),
        (1.50, 1.60, "met"),
        (1.10, 1.20, "missed"),
        (0.80, 0.90, "missed"),
        (0.98, 1.40, "not_shown"),
    ],
)
def test_a_promise_is_kept_by_a_gain_that_is_not_shown_to_be_smaller(
    low: float, high: float, verdict: str
) -> None:
    assert judged(a_ratio((low + high) / 2, low, high), PROMISED) == verdict


@pytest.mark.parametrize(("low", "high", "verdict"), [(1.01, 1.1, "met"), (0.9, 1.1, "not_shown")])
def test_a_part_of_the_changes_promises_a_gain_only(low: float, high: float, verdict: str) -> None:
    assert judged(a_ratio(1.05, low, high), None) == verdict


class FakeLauncher:
    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []

    def start(self, number: int, config: Any, present: Any, **options: Any) -> Any:
        self.started.append({"config": config, "present": present, **options})
        return type("Started", (), {"folder": Path("logs")})()


def programs(**fields: Any) -> tuple[Programs, FakeLauncher, FakeLauncher]:
    one, other = FakeLauncher(), FakeLauncher()
    arena = Programs(one, KNOBS, {}, patched=other, **fields)  # type: ignore[arg-type]  # stands in for a launcher
    arena.queue_depth = queue_depth
    return arena, one, other


def test_each_configuration_starts_its_own_program_with_its_own_environment() -> None:
    arena, one, other = programs(fixed={"num_threads": 1}, variables={"A": "1"})
    arena.start({NAME: ORIGINAL}, 0, seed_offset=2)
    arena.start({NAME: PATCHED}, 0)
    assert one.started == [{"config": {"num_threads": 1}, "present": {}, "environment": {}, "seed_offset": 2}]
    assert other.started == [{"config": {"num_threads": 1}, "present": {}, "environment": {"A": "1"}}]


def test_what_was_fixed_is_set_once_the_program_is_known_as_well() -> None:
    arena, one, other = programs(fixed={"num_threads": 1})
    baseline: Any = SimpleNamespace(profile=None, session=None)
    settings = Settings(target=TargetRequest(kind="script", name="train.py"), fixed={"num_threads": 1})
    there: Any = SimpleNamespace(settings=settings, baseline=baseline, arena=arena)
    MeasuredBench.learn(there, a_profile())
    arena.start({NAME: ORIGINAL}, 0)
    arena.start({NAME: PATCHED}, 0)
    assert [of.started[0]["config"] for of in (one, other)] == [{"num_threads": 1}] * 2


def test_programs_take_turns_unless_workers_load_the_data_or_they_are_short() -> None:
    arena, _, _ = programs()
    first: dict[str, Value] = {NAME: ORIGINAL, "num_workers": 0}
    second: dict[str, Value] = {NAME: PATCHED, "num_workers": 0}
    assert arena.how(first, second) == BATON
    assert arena.how(first, second | {"num_workers": 2}) == WINDOWS
    arena.max_steps = 40
    assert arena.how(first, second) == WINDOWS
    assert programs(loading=True)[0].how(first, second) == WINDOWS


def test_memory_is_compared_in_processes_of_their_own() -> None:
    one, other = FakeLauncher(), FakeLauncher()
    arena = MemoryPrograms(one, KNOBS, {}, patched=other)  # type: ignore[arg-type]  # stands in for a launcher
    assert arena.how({NAME: ORIGINAL}, {NAME: PATCHED}) == WINDOWS
    arena.start({NAME: PATCHED}, 0)
    assert len(other.started) == 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_a_promise_of_another_machine_is_not_verified(here: Path) -> None:
    result = a_result_for(Path("train.py"), a_change("num_workers", 0, 2))
    with pytest.raises(UsageError, match="not comparable"):
        refuse_promise(result, make_patch(result), a_machine())


def test_where_nothing_is_edited_there_is_nothing_to_verify(here: Path) -> None:
    machine = a_machine()
    result = a_result_for(Path("train.py"), a_change("gc_freeze", "off", "freeze"), machine=machine.as_json())
    with pytest.raises(UsageError, match="nothing to verify"):
        refuse_promise(result, make_patch(result), machine)
    edited = a_result_for(Path("train.py"), a_change("num_workers", 0, 2), machine=machine.as_json())
    refuse_promise(edited, make_patch(edited), machine)


SAID = {
    "met": "The patched program gives 1.40x throughput (1.35 to 1.45, 99 %, 18 quads in 6 processes); "
    "promised were 1.42x (1.38 to 1.46); identical numbers.",
    "missed": "The patched program gives less than promised: 1.40x throughput",
    "not_shown": "No gain of the patched program could be shown: 1.40x throughput",
    "drifts": "The numbers of the patched program drift: they differ.",
    "failed": "The patched program fails: user_error: boom.",
}


@pytest.mark.parametrize("verdict", SAID)
def test_each_verdict_has_its_sentence(verdict: Any) -> None:
    found = Verification(
        verdict=verdict, promised=PROMISED, measured=a_ratio(1.40, 1.35, 1.45, 18, 6),
        numerics="identical", numerics_reason="they differ",
        why="user_error: boom" if verdict == "failed" else "",
    )  # fmt: skip
    assert sentence(found).startswith(SAID[verdict])
    assert found.holds == (verdict == "met")

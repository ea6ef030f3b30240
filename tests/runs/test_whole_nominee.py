"""What a removal could not tell: the pairs of processes decide, of what is left and of the whole."""

from pathlib import Path

import pytest
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.stages.confirming.reducing import Reducing
from advisor.tuners.comparing.measure import Estimate
from advisor.tuners.knob import Value
from advisor.tuners.search import ablate
from advisor.tuners.search.removal import Removal

ALL_OF_IT = "what is left is not as fast without"


@pytest.fixture(autouse=True)
def _removals_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is taken out, with what that seemed to cost."""

    def judged(knob: str, removal: Estimate, *of: object, **cut_off: bool) -> Removal:
        return Removal(knob, removal, False)

    monkeypatch.setattr(ablate, "judged", judged)
    monkeypatch.setattr(Reducing, "known", {})
    monkeypatch.setattr(Reducing, "seen", {})


def tuned(folder: Path, *, workers: float, malloc: float, both: float, between: float = 0.002) -> Replay:
    """Tune a program whose steps take so many times as long with workers, an allocator, and both.

    Its processes differ by a spread of ``between``, in logarithms.
    """
    effects = [
        Effect(where(num_workers=2, malloc="libc"), step=workers),
        Effect(where(num_workers=0, malloc="libc-tuned"), step=malloc),
        Effect(where(num_workers=2, malloc="libc-tuned"), step=both),
    ]
    knobs: dict[str, list[Value] | None] = {"num_workers": [0, 2], "malloc": ["libc", "libc-tuned"]}
    return replayed(Program(effects, between=between), folder, knobs=knobs, budget_s=600.0)


@pytest.mark.parametrize(
    ("workers", "malloc", "both", "least"),
    [(1.4, 1.2, 0.7, 1.5), (0.8, 0.7, 0.5, 1.2)],
    ids=["nothing is left", "less is left, which is confirmed"],
)
def test_the_whole_is_confirmed_where_what_is_left_is_slower(
    workers: float, malloc: float, both: float, least: float, tmp_path: Path
) -> None:
    run = tuned(tmp_path, workers=workers, malloc=malloc, both=both)
    assert any(each.startswith(ALL_OF_IT) for each in run.said)
    found = run.result.recommendation
    assert found.config == {"num_workers": 2, "malloc": "libc-tuned"}
    (told,) = [each.contribution for each in found.changes if each.contribution is not None]
    assert told.low > least  # what one change brings beside the other is more


def test_what_costs_little_stays_out(tmp_path: Path) -> None:
    run = tuned(tmp_path, workers=0.7, malloc=0.93, both=0.64)
    assert not any(each.startswith(ALL_OF_IT) for each in run.said)
    assert run.result.recommendation.config == {"num_workers": 2, "malloc": "libc"}


def test_the_whole_is_confirmed_where_what_is_left_gains_too_little_to_be(tmp_path: Path) -> None:
    run = tuned(tmp_path, workers=0.93, malloc=0.99, both=0.82, between=0.05)
    assert any(each.startswith(ALL_OF_IT) for each in run.said)
    found = run.result.recommendation
    assert found.config == {"num_workers": 2, "malloc": "libc-tuned"} and found.speedup.low > 1.05

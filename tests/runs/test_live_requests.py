"""Requests to a trained model end to end in real processes: a workload, and a script as it is."""

import textwrap
from pathlib import Path

import pytest
from remembered_progress import Told

from advisor.base.errors import TargetError, UsageError
from advisor.base.settings import Settings, TargetRequest
from advisor.report.profile_text import render_profile
from advisor.result.document import ProfileData, ResultData
from advisor.runs.profile import NO_STEP, profile
from advisor.runs.tune import tune
from advisor.tuners.comparing.percentiles import least_requests

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_folder", "no_process_remains", "warm_trials")]

WORKLOAD = """
    import torch, advisor

    class Items(torch.utils.data.Dataset):
        def __len__(self): return 100
        def __getitem__(self, index):
            return torch.full((64,), index / 100), index % 4

    workload = advisor.Workload(model=lambda: torch.nn.Linear(64, 4), dataset=Items)
"""
SCRIPT = """
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
    for number in range(10**9):
        with torch.no_grad():
            model(torch.full((1, 64), float(number % 5)))
"""
TRAINING = """
    import torch
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10**9):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
"""


ENDS = SCRIPT.replace("10**9", "3000")
NOTHING = """
    import torch
    torch.ones(3).sum()
"""


def profiled(folder: Path, kind: str, text: str, objective: str = "goodput") -> tuple[ProfileData, Told]:
    file = folder / "serve.py"
    file.write_text(textwrap.dedent(text))
    target = TargetRequest(kind=kind, name=str(file))  # type: ignore[arg-type]  # one of its names
    told = Told()
    settings = Settings(target=target, objective=objective, budget_s=20.0)  # type: ignore[arg-type]
    return profile(settings, told), told


def tuned(folder: Path, kind: str, text: str, objective: str = "latency") -> ResultData:
    file = folder / "serve.py"
    file.write_text(textwrap.dedent(text))
    target = TargetRequest(kind=kind, name=str(file))  # type: ignore[arg-type]  # one of its names
    settings = Settings(
        target=target, objective=objective, budget_s=8.0, knobs={"placebo": None}  # type: ignore[arg-type]
    )  # fmt: skip
    return tune(settings, Told())


@pytest.mark.parametrize(
    ("kind", "text"),
    [("workload", WORKLOAD), pytest.param("script", SCRIPT, marks=pytest.mark.long)],
    ids=["workload", "script"],
)
def test_what_does_nothing_is_kept_and_requests_are_told_by_percentile(
    kind: str, text: str, tmp_path: Path
) -> None:
    result = tuned(tmp_path, kind, text)
    found = result.baseline.latency
    assert result.recommendation.verdict == "keep" and result.objective == "latency"
    assert found is not None and found.cold_start_s is not None and found.p50_ms > 0
    tail = [found.p50_ms, found.p90_ms, found.p99_ms or found.p90_ms]
    assert tail == sorted(tail) and (found.p99_ms is not None) == (found.requests >= least_requests(0.99))
    assert not [each for each in result.findings if each.state == "error"]


def test_a_script_that_trains_is_sent_to_the_other_objectives(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes optimizer steps") as refused:
        tuned(tmp_path, "script", TRAINING)
    assert refused.value.exit_code == 2 and "--objective goodput" in str(refused.value.hint)


def test_a_workload_that_only_serves_is_sent_to_latency(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no optimizer") as refused:
        tuned(tmp_path, "workload", WORKLOAD, objective="goodput")
    assert "--objective latency" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("kind", "text"),
    [pytest.param("workload", WORKLOAD, marks=pytest.mark.long), ("script", ENDS)],
    ids=["workload", "script"],
)
def test_a_profile_of_what_takes_no_step_counts_requests(kind: str, text: str, tmp_path: Path) -> None:
    result, told = profiled(tmp_path, kind, text)
    assert NO_STEP in told.said
    assert result.baseline is not None and result.baseline.latency is not None
    found = result.baseline.latency
    assert found.requests >= 30 and 0 < found.p50_ms <= found.p90_ms and found.cold_start_s is not None
    assert result.profile.phases_ms["forward"] > 0
    assert not [each for each in result.findings if each.state == "error"]
    text = render_profile(result, 200)
    assert "Time of a request: " in text and "One request:" in text and "Requests watched: " in text


@pytest.mark.long
def test_a_profile_counts_requests_at_once_where_that_is_asked_for(tmp_path: Path) -> None:
    result, told = profiled(tmp_path, "script", SCRIPT, objective="latency")
    assert NO_STEP not in told.said and result.baseline is not None and result.baseline.latency is not None


def test_a_profile_of_what_neither_trains_nor_answers_says_so(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no training step found") as failed:
        profiled(tmp_path, "script", NOTHING)
    assert "advisor init" in str(failed.value.hint)

"""A classifier trained here is judged in 8 bits as a run does it: by real processes, on samples set apart."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from remembered_progress import Told
from trained_classifier import classifier

from advisor.base.settings import Settings, TargetRequest
from advisor.base.signals import StopRequests
from advisor.stages.bench import MeasuredBench, open_bench, run_unchanged
from advisor.stages.confirming.agreement import AgreementCheck
from advisor.stages.launching import Caller
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.space import build_space

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_folder", "no_process_remains", "warm_trials")]

TESTS = Path(__file__).parents[2]
HARMLESS, HARMFUL = 50, 125  # cost some 0.3 and 2 points where each request has a range of its own
BUDGET_S = 900.0  # answers are kept for a fifth of it, whatever else the machine does
WORKLOAD = """
import sys
sys.path.insert(0, {tests!r})
import torch, advisor
from trained_classifier import drawn, network

def trained():
    model = network()
    model.load_state_dict(torch.load({weights!r}, weights_only=True))
    return model

workload = advisor.Workload(
    model=trained, dataset=lambda: torch.utils.data.TensorDataset(*drawn({samples}, seed=3)),
    metric=lambda output, target: float(output.argmax().item() == target.item()),
)
"""


@contextmanager
def served(folder: Path, factor: int, samples: int) -> Iterator[MeasuredBench]:
    """The classifier on a bench, so many samples in its dataset."""
    weights, file, trials = folder / "weights.pt", folder / "serve.py", folder / "trials"
    torch.save(classifier(factor).state_dict(), weights)
    file.write_text(WORKLOAD.format(tests=str(TESTS), weights=str(weights), samples=samples))
    trials.mkdir(mode=0o700)
    target = TargetRequest(kind="workload", name=str(file))
    settings = Settings(target=target, objective="latency", budget_s=BUDGET_S)
    with (
        StopRequests() as stop,
        open_bench(settings, trials, Caller(Told(), stop), began=time.monotonic()) as bench,
    ):
        measured = run_unchanged(bench)
        measured.baseline.end()
        yield measured


@pytest.mark.parametrize(
    ("factor", "samples", "accepted", "told"),
    [
        (HARMFUL, 4000, False, "tolerated are 1.00%"),
        (HARMLESS, 6000, True, "(99 % one-sided: "),
        (HARMLESS, 150, False, "to tell it from 1.00% takes about"),
    ],
    ids=["two_points", "a_fifth_of_a_point", "too_few_samples"],
)
def test_a_loss_is_refused_accepted_or_left_open_by_what_samples_show(
    factor: int, samples: int, accepted: bool, told: str, tmp_path: Path
) -> None:
    with served(tmp_path, factor, samples) as bench:
        space = build_space(KNOBS, bench.profile, named={"quantization": ("int8_dynamic",)})
        winner = space.complete({"quantization": "int8_dynamic"})
        found = AgreementCheck(bench, space).run(winner)
    assert (found.config == winner) == accepted, found.reason
    reason = found.verdicts[""].reason
    assert told in reason and "the metric goes from" in reason

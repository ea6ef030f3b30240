"""Whole runs on requests in real processes: tails, 8 bits that are slower, answers that lose points."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from remembered_progress import Told
from torch import Tensor

from advisor.base.settings import Settings, TargetRequest
from advisor.result.document import ResultData
from advisor.runs.tune import tune

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("own_folder", "no_process_remains", "warm_trials"),
]

TAIL = """
    import time
    import torch

    class Waits(torch.nn.Linear):
        # 4 ms; a quarter of that in inference mode, but for every fiftieth request, which takes 40
        asked = 0

        def forward(self, x):
            self.asked += 1
            faster = torch.is_inference_mode_enabled()
            time.sleep((0.04 if self.asked % 50 == 0 else 0.001) if faster else 0.004)
            return super().forward(x)

    model = Waits(8, 4).eval()
    for number in range(10**9):
        with torch.no_grad():
            model(torch.full((1, 8), float(number % 5)))
"""
TINY = """
    import torch, advisor

    workload = advisor.Workload(
        model=lambda: torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(12))),
        dataset=lambda: torch.utils.data.TensorDataset(torch.rand(2000, 8)),
    )
"""
LOSES = """
    import time
    import torch, advisor

    class Knows(torch.nn.Linear):
        # right about every sample in 1 ms; under autocast in 0.25 ms, and wrong about a share of them
        def forward(self, x):
            fast = torch.is_autocast_enabled("cpu")
            time.sleep(0.00025 if fast else 0.001)
            wrong = fast & (x[:, 1] < SHARE)
            right = torch.nn.functional.one_hot((x[:, 0].long() + wrong) % 4, 4)
            return super().forward(x) * 0.01 + right

    drawn = torch.rand(SAMPLES, 1, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(SAMPLES) % 4
    samples = torch.cat((labels[:, None].float(), drawn), 1)
    workload = advisor.Workload(
        model=lambda: Knows(2, 4),
        dataset=lambda: torch.utils.data.TensorDataset(samples, labels),
        metric=lambda output, target: float(output.argmax() == target),
    )
"""
LEARNT = """
    import torch, advisor

    def model():
        widths = (64, 2048, 2048, 10)
        layers = [torch.nn.Linear(before, after) for before, after in zip(widths, widths[1:])]
        made = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
        made.load_state_dict(torch.load("learnt.pt"))
        return made

    workload = advisor.Workload(
        model=model,
        dataset=lambda: torch.utils.data.TensorDataset(*torch.load("samples.pt")),
        metric=lambda output, target: float(output.argmax() == target),
    )
"""


def tuned(folder: Path, kind: str, text: str, budget_s: float, **knobs: list[Any]) -> ResultData:
    file = folder / "serve.py"
    file.write_text(textwrap.dedent(text))
    target = TargetRequest(kind=kind, name=str(file))  # type: ignore[arg-type]  # one of its names
    settings = Settings(target=target, objective="latency", budget_s=budget_s, knobs=dict(knobs))
    return tune(settings, Told())


def test_a_tail_that_a_shorter_median_brings_is_vetoed(tmp_path: Path) -> None:
    result = tuned(tmp_path, "script", TAIL, 120.0, inference_mode=["inference_mode"])
    found = result.recommendation
    assert found.verdict == "keep" and "tail not shown: p99 is" in found.reason
    assert found.slow_requests is not None and found.slow_requests.tail == "not_shown"


def test_eight_bits_that_are_slower_are_not_recommended(tmp_path: Path) -> None:
    result = tuned(tmp_path, "workload", TINY, 40.0, quantization=["int8_dynamic"])
    tried = [trial for trial in result.trials if trial.config.get("quantization") == "int8_dynamic"]
    ratios = [each.against_baseline for each in tried if each.state == "complete"]
    assert result.recommendation.verdict == "keep"
    assert ratios and all(ratio is not None and ratio.estimate < 1 for ratio in ratios), tried


@pytest.mark.parametrize(
    ("share", "samples", "verdict", "said"),
    [
        (0.02, 4000, "keep", r"the metric goes from 1 to 0\.9\d+, a loss of .* tolerated are 1\.00%"),
        (0.002, 4000, "change", ""),
        (0.002, 400, "keep", r"to tell it from 1\.00% takes about [\d,]+ samples"),
    ],
)
def test_16_bits_that_lose_points_are_judged_by_the_metric(
    share: float, samples: int, verdict: str, said: str, tmp_path: Path
) -> None:
    text = LOSES.replace("SHARE", str(share)).replace("SAMPLES", str(samples))
    result = tuned(tmp_path, "workload", text, 60.0, amp=["bf16"])
    found = result.recommendation
    assert found.verdict == verdict and re.search(said, found.reason)


@pytest.mark.parametrize(
    ("factor", "samples", "verdict", "said"),
    [
        (180.0, 6000, "keep", r"loss of \d+\.\d+% \(99 % one-sided: .* tolerated are 1\.00%"),
        (60.0, 6000, "change", ""),
        (60.0, 300, "keep", r"to tell it from 1\.00% takes about [\d,]+ samples"),
    ],
)
def test_8_bits_of_a_model_that_has_learnt_are_judged_by_the_metric(
    factor: float, samples: int, verdict: str, said: str, tmp_path: Path
) -> None:
    torch.save(_learnt(factor), "learnt.pt")
    torch.save(_patterns(samples, 2), "samples.pt")
    result = tuned(tmp_path, "workload", LEARNT, 90.0, quantization=["int8_dynamic"])
    found = result.recommendation
    assert found.verdict == verdict and re.search(said, found.reason)
    assert [each.knob for each in found.proposals] == ["quantization"] * (factor == 180.0)


def _patterns(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noisy rows (count, 64), and which of ten patterns each shows."""
    known = 0.45 * torch.randn(10, 64, generator=torch.Generator().manual_seed(5))
    random = torch.Generator().manual_seed(seed)
    targets = torch.randint(10, (count,), generator=random)
    return known[targets] + torch.randn(count, 64, generator=random), targets


def _learnt(factor: float) -> dict[str, Tensor]:
    """Weights that name nine in ten patterns. Units scaled up and down again change nothing in 32 bits."""
    torch.manual_seed(0)
    first, second, last = (
        torch.nn.Linear(before, after) for before, after in ((64, 2048), (2048, 2048), (2048, 10))
    )
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    inputs, targets = _patterns(20_000, 1)
    for _ in range(150):
        batch = torch.randint(len(inputs), (256,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        for scaled, after in ((first, second), (second, last)):
            scaled.weight[0] *= factor
            scaled.bias[0] *= factor
            after.weight[:, 0] /= factor
    return model.state_dict()

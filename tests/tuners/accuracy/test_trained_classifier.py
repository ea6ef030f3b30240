"""A classifier trained here, in 32 and in 8 bits: what the gate says of a real loss.

A unit of the hidden layer is scaled up and its outgoing weights down by as much, which changes nothing in 32
bits. In 8 bits the largest weight sets the step of all, as in networks of depthwise convolutions (Nagel et
al., 2019): so the factor sets how much is lost.
"""

import copy
import functools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from advisor.tuners.accuracy.acceptance import Acceptance, Scores, accept
from advisor.tuners.accuracy.outputs import Output, flattened
from advisor.tuners.knob import Semantics
from advisor.tuners.mechanisms.forms.form import Source
from advisor.tuners.mechanisms.forms.torch_int8 import torch_int8_form

CLASSES, FEATURES = 10, 32
HARMLESS, HARMFUL = 8, 56  # factors that cost some 0.2 and 2 points


def test_the_classifier_has_learnt_its_task() -> None:
    inputs, targets = _samples(4000, seed=2)
    assert (_trained()(inputs).argmax(1) == targets).float().mean() > 0.9


def test_two_points_are_refused_with_their_interval(tmp_path: Path) -> None:
    said = _judged(HARMFUL, 4000, tmp_path)
    assert (said.verdict, said.by) == ("refused", "metric")
    assert said.loss is not None and 0.01 < said.loss.low < said.loss.loss < said.loss.high


def test_a_fifth_of_a_point_is_accepted_where_samples_suffice(tmp_path: Path) -> None:
    said = _judged(HARMLESS, 6000, tmp_path)
    assert said.verdict == "accepted"
    assert said.loss is not None and said.loss.high < 0.01


def test_where_they_do_not_the_number_that_would_do_is_told(tmp_path: Path) -> None:
    said = _judged(HARMLESS, 100, tmp_path)
    assert said.verdict == "not_decidable"
    assert said.samples_needed is not None and 100 < said.samples_needed <= 6000


@pytest.mark.parametrize(("factor", "verdict"), [(1, "accepted"), (HARMFUL, "refused")])
def test_without_targets_decisions_that_change_are_counted(factor: int, verdict: str, tmp_path: Path) -> None:
    said = _judged(factor, 6000, tmp_path, labelled=False)
    assert (said.verdict, said.by) == (verdict, "agreement")


def _judged(factor: int, count: int, folder: Path, *, labelled: bool = True) -> Acceptance:
    model = copy.deepcopy(_trained())
    first, last = model[0], model[2]
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    with torch.no_grad():
        for scaled in (first.weight, first.bias):
            scaled[0] *= factor
        last.weight[:, 0] /= factor
        inputs, targets = _samples(count, seed=3)
        form = torch_int8_form(Source(model, ((inputs[:1],), {}), folder))
        own, other = model(inputs), form.call(inputs)
    scores = Scores(*((each.argmax(1) == targets).float().tolist() for each in (own, other)))
    return accept(_rows(own), _rows(other), Semantics.PRECISION, scores=scores if labelled else None)


@functools.cache
def _trained() -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(FEATURES + FEATURES // 2, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    inputs, targets = _samples(8000, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        batch = torch.randint(len(inputs), (256,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    return model.eval()


def _samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Clouds around ten centres, with the products of some features."""
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(5)) * 0.75
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(CLASSES, (count,), generator=generator)
    inputs = centres[targets] + torch.randn(count, FEATURES, generator=generator)
    half = FEATURES // 2
    return torch.cat([inputs, inputs[:, :half] * inputs[:, half:]], 1), targets


def _rows(outputs: Tensor) -> list[Output]:
    return [flattened(row[None]) for row in outputs]

"""A classifier trained here, in 32 and in 8 bits: what the gate says of a real loss."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from trained_classifier import HARMFUL, HARMLESS, classifier, drawn

from advisor.tuners.accuracy.acceptance import Acceptance, Scores, accept
from advisor.tuners.accuracy.outputs import Output, flattened
from advisor.tuners.knob import Semantics
from advisor.tuners.mechanisms.forms.form import Source
from advisor.tuners.mechanisms.forms.torch_int8 import torch_int8_form


def test_the_classifier_has_learnt_its_task() -> None:
    inputs, targets = drawn(4000, seed=2)
    assert (classifier(1)(inputs).argmax(1) == targets).float().mean() > 0.9


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
    model = classifier(factor)
    inputs, targets = drawn(count, seed=3)
    with torch.no_grad():
        form = torch_int8_form(Source(model, ((inputs[:1],), {}), folder))
        own, other = model(inputs), form.call(inputs)
    scores = Scores(*((each.argmax(1) == targets).float().tolist() for each in (own, other)))
    return accept(_rows(own), _rows(other), Semantics.PRECISION, scores=scores if labelled else None)


def _rows(outputs: Tensor) -> list[Output]:
    return [flattened(row[None]) for row in outputs]

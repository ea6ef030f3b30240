"""What is noted of calls of a model: prefixes, calibration, time before it, its weights."""

import time
import warnings
from typing import Any

import pytest
import torch
from answering import Answering, answering
from torch import nn
from torch.ao import quantization
from torch.nn.utils import prune

import advisor


class Writer(nn.Module):
    """Answers each token of a text, and takes texts of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.out = nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.out(self.table(tokens))
        return answer


def test_a_text_that_grows_from_call_to_call_is_computed_again() -> None:
    model, tokens = Writer().eval(), torch.tensor([[4, 7, 9, 2, 1, 8]])
    with answering() as seen, torch.inference_mode(), seen.inspected(), advisor.request():
        for _ in range(3):
            tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    assert seen.served.tokens_again == pytest.approx((6 + 7) / (6 + 7 + 8))
    assert seen.served.prefix == 6.5 and seen.served.last_token is not None


def test_single_tokens_masks_and_other_texts_are_no_prefix() -> None:
    model = Writer().eval()
    others = [torch.ones(1, n, dtype=torch.int64) for n in (5, 6, 7)]
    others += [torch.tensor([[3]]), torch.tensor([[3, 4]]), torch.tensor([[9, 4, 5]])]
    with answering() as seen, torch.inference_mode():
        for tokens in others:
            model(tokens)
    assert seen.served.tokens_again == 0.0 and seen.served.last_token is None


def int8(inputs: torch.Tensor, configuration: str) -> nn.Module:
    """A model of 8 bits that was calibrated, while somebody may watch."""
    torch.manual_seed(0)
    layers = quantization.QuantStub(), nn.Linear(128, 128), nn.ReLU(), quantization.DeQuantStub()
    model: Any = nn.Sequential(*layers).eval()
    model.qconfig = quantization.get_default_qconfig(configuration)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = quantization.prepare(model)
        for rows in inputs.split(16):
            prepared(rows)
        converted: nn.Module = quantization.convert(prepared)
    return converted


@pytest.mark.parametrize(("same", "share"), [(True, 1.0), (False, 0.0)])
def test_calls_that_calibrate_are_no_requests_and_their_inputs_are_known(same: bool, share: float) -> None:
    inputs, others = torch.randn(64, 128), torch.randn(64, 128)
    with answering() as seen, torch.no_grad():
        model = int8(inputs, "x86")
        for row in inputs if same else others:
            model(row[None])
    assert len(seen.steps) == 64
    assert (seen.served.calibrated, seen.served.calibrated_share) == (64, share)


def test_layers_of_8_bits_are_held_beside_float32() -> None:
    inputs = torch.randn(64, 128)
    with answering() as seen, torch.no_grad():
        model = int8(inputs, "x86")
        with seen.inspected():
            model(inputs)
    found = seen.served.int8
    assert found is not None and found.layers == 1 and found.worst == "1"
    assert found.error < 0.03  # a configuration of this engine leaves a bit free
    assert found.int8_ms > 0 and found.float32_ms > 0


def test_layers_that_round_their_input_themselves_are_held_beside_float32_too() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    with answering() as seen, torch.no_grad(), seen.inspected():
        small(torch.randn(4, 64))
    found = seen.served.int8
    assert found is not None and found.layers == 2 and found.error < 0.03


def test_time_before_a_model_is_called_counts_from_the_begin_of_a_marked_request() -> None:
    model = nn.Linear(4, 4).eval()
    with answering() as seen, torch.inference_mode():
        for _ in range(4):
            time.sleep(0.1)  # between requests
            with advisor.request():
                time.sleep(0.01)
                model(torch.ones(1, 4))
                time.sleep(0.1)
                model(torch.ones(1, 4))
    assert seen.served.before_ms is not None and 10 <= seen.served.before_ms < 100
    assert seen.served.first_ms is not None and seen.served.first_ms >= 110


@pytest.mark.parametrize("between", [False, True])
def test_without_marks_it_is_known_only_where_time_between_requests_counts(between: bool) -> None:
    model = nn.Linear(4, 4).eval()
    with answering(between=between) as seen, torch.inference_mode():
        for _ in range(3):
            time.sleep(0.01)
            model(torch.ones(1, 4))
    assert (seen.served.before_ms is not None) is between and seen.served.first_ms is None


def looked_at(model: nn.Module, sample: torch.Tensor) -> Answering:
    with answering() as seen, torch.no_grad():
        with seen.inspected():
            model(sample)
        assert len(seen.steps) == 1  # what was tried with it is no request
    return seen


def test_masks_and_zeros_are_found_and_timed() -> None:
    model: Any = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).eval()
    prune.l1_unstructured(model[0], "weight", amount=0.5)
    served = looked_at(model, torch.ones(1, 64)).served
    assert served.zeros == pytest.approx(0.25, abs=0.01) and served.masks == 1 and served.mask_ms > 0
    prune.remove(model[0], "weight")
    served = looked_at(model, torch.ones(1, 64)).served
    assert served.zeros == pytest.approx(0.25, abs=0.01) and (served.masks, served.mask_ms) == (0, 0)


def test_eight_samples_are_timed_where_a_request_has_one() -> None:
    model = nn.Linear(512, 512).eval()
    one = looked_at(model, torch.ones(1, 512)).served.eight_at_once
    assert one is not None and one > 0
    assert looked_at(model, torch.ones(2, 512)).served.eight_at_once is None
    assert looked_at(model.train(), torch.ones(1, 512)).served.eight_at_once is None


def test_a_model_that_takes_one_sample_only_is_not_asked_for_more() -> None:
    class Single(nn.Linear):
        def forward(self, row: torch.Tensor) -> torch.Tensor:
            return super().forward(row.reshape(4))

    assert looked_at(Single(4, 4).eval(), torch.ones(1, 4)).served.eight_at_once is None

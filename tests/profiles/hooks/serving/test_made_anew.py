"""What is made again after the first request is noted, with its time and place."""

import time
from pathlib import Path

import pytest
import torch
from answering import answering
from torch import nn

import advisor

ROW = torch.ones(1, 4)


def test_weights_loaded_in_each_request_count_after_the_first(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save(nn.Linear(4, 4).state_dict(), file)
    with answering() as seen, torch.inference_mode():
        for _ in range(5):
            with advisor.request():
                model = nn.Linear(4, 4).eval()
                model.load_state_dict(torch.load(file))
                model(ROW)
        (made,) = seen.served.made
    assert (made.kind, made.call, made.per_request) == ("load", "torch.load", 1.0)
    assert made.ms > 0 and made.inside_ms == pytest.approx(made.ms)
    assert made.location is not None and made.location.file == __file__


def test_a_model_that_is_built_to_be_loaded_is_drawn_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save(nn.Linear(1000, 1000).state_dict(), file)
    weights = torch.load(file)
    with answering() as seen, torch.inference_mode():
        for _ in range(5):
            with advisor.request():
                model = nn.Linear(1000, 1000).eval()
                model.load_state_dict(weights)
                model(torch.ones(1, 1000))
        (made,) = seen.served.made
    assert (made.call, made.per_request) == ("load_state_dict", 1.0)
    model = nn.Linear(1000, 1000)
    began = time.perf_counter()
    for _ in range(5):
        model.load_state_dict(weights)
    copied_ms = (time.perf_counter() - began) / 5 * 1e3
    assert made.ms > 1.3 * copied_ms  # drawing a million numbers takes far longer than copying them


def test_a_model_that_is_built_alone_is_not_called_loaded() -> None:
    with answering() as seen, torch.inference_mode():
        for _ in range(5):
            with advisor.request():
                nn.Linear(4, 4).eval()(ROW)
        assert seen.served.made == ()


def test_what_is_made_before_the_first_request_is_made_once() -> None:
    model = nn.Linear(4, 4).eval()
    with answering() as seen, torch.inference_mode():
        traced = torch.jit.trace(model, ROW)
        for _ in range(3):
            traced(ROW)
        assert seen.served.made == () and len(seen.steps) == 3


def test_a_form_made_between_requests_is_none_of_their_time_and_no_request() -> None:
    model = nn.Linear(4, 4).eval()
    with answering() as seen, torch.inference_mode():
        for _ in range(20):  # more than those in which models are looked for
            torch.jit.trace(model, ROW)(ROW)
        (made,) = seen.served.made
        assert len(seen.steps) == 20
    assert (made.kind, made.call, made.inside_ms) == ("form", "torch.jit.trace", 0.0)
    assert made.per_request == pytest.approx(1.0, abs=0.06)


def test_everything_is_put_back() -> None:
    def patched() -> tuple[object, ...]:
        return (
            torch.load,
            torch.jit.trace,
            torch.jit.load,
            nn.Linear.reset_parameters,
            nn.Module.load_state_dict,
        )

    before = patched()
    with answering():
        assert torch.load is not before[0] and nn.Linear.reset_parameters is not before[3]
    assert before == patched()

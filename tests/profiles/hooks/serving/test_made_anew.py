"""What is made again after the first request is noted, with its time and place."""

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
    before = torch.load, torch.jit.trace, torch.jit.load
    with answering():
        assert torch.load is not before[0]
    assert before == (torch.load, torch.jit.trace, torch.jit.load)

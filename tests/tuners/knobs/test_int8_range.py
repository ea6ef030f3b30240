from pathlib import Path

import pytest
import torch
from builders import a_profile

from advisor.profiles.events import Request
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.int8_range import Int8Range


def test_eight_bits_are_tried_by_auto_alone() -> None:
    knob = Int8Range()
    assert knob.choices(a_profile()) == ["auto", "7"]
    assert knob.follows == "quantization"


def test_without_anything_of_8_bits_it_is_refused(tmp_path: Path) -> None:
    knob, model = Int8Range(), torch.nn.ReLU()
    request = Request((), {}, tmp_path)
    knob.prepare({"quantization": "none"}, {})
    with pytest.raises(Refused, match="nothing is quantised"):
        knob.serve(model.forward, model, request, "7")
    knob.prepare({"quantization": "int8_dynamic"}, {})
    assert knob.serve(model.forward, model, request, "7") == model.forward

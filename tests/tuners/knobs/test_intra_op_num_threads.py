from pathlib import Path

import pytest
import torch
from builders import a_gpu_profile, a_machine, a_profile

from advisor.profiles.events import Request
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.intra_op_num_threads import IntraOpNumThreads
from advisor.tuners.mechanisms.forms import packages
from advisor.tuners.mechanisms.forms.form import Threads


def test_one_thread_and_all_are_tried_beside_torchs_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: True)
    profile = a_profile(a_machine(cpus_allowed=4, physical_cores=2))
    assert IntraOpNumThreads().choices(profile) == [0, 2, 4]  # its own run has one
    with pytest.raises(Refused, match="CPUs only"):
        IntraOpNumThreads().choices(a_gpu_profile())


def test_without_such_a_runtime_there_is_nothing_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "installed", lambda name: False)
    with pytest.raises(Refused, match="onnxruntime is not installed"):
        IntraOpNumThreads().choices(a_profile())


def test_it_is_refused_where_torch_runs_the_model(tmp_path: Path) -> None:
    knob, model, request = IntraOpNumThreads(), torch.nn.ReLU(), Request((), {}, tmp_path)
    knob.prepare({"runtime": "torch"}, {})
    with pytest.raises(Refused, match="no threads of its own"):
        knob.serve(model.forward, model, request, 2)
    knob.prepare({"runtime": "onnxruntime"}, {})
    assert knob.serve(model.forward, model, request, 2) == model.forward


def test_as_many_as_torch_has_unless_a_number_is_asked_for() -> None:
    assert Threads.of({}) == Threads(0, spinning=False)
    assert Threads.of({"intra_op_num_threads": 3, "allow_spinning": "on"}) == Threads(3, spinning=True)
    assert Threads().number == torch.get_num_threads() and Threads(3).number == 3

from pathlib import Path

import pytest
import torch
from builders import a_profile, a_root, a_window, an_op

from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.recorder import Recorder
from advisor.profiles.traces.ops import window_of
from advisor.profiles.traces.reading import read_trace
from advisor.tuners.mechanisms.computed import calls_attention, gradient_norms, has_convolutions


def a_recorded_step(path: Path, *, attends: bool, foreach: bool | None, clips: bool) -> Profile:
    """One real step, recorded as a trial records it."""
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters())
    recorder = Recorder(path)
    recorder.start()
    recorder.enter("forward")
    heads = layer(torch.ones(1, 2, 3, 4))
    if attends:
        heads = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    recorder.leave()
    recorder.enter("backward")
    heads.sum().backward()
    recorder.leave()
    if clips:
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0, foreach=foreach)
    optimizer.step()
    recorder.stop()
    return a_profile(window=window_of(read_trace(path), clean_step_ms=None))


def test_a_real_step_shows_attention_and_how_it_clips(tmp_path: Path) -> None:
    for attends, foreach, clips, norms in (
        (True, None, True, "foreach"), (False, False, True, "for-loop"), (False, None, False, "none"),
    ):  # fmt: skip
        profile = a_recorded_step(tmp_path / "trace.json", attends=attends, foreach=foreach, clips=clips)
        assert (calls_attention(profile), gradient_norms(profile)) == (attends, norms)


@pytest.mark.parametrize("profile", [a_profile(), a_profile(window=a_window())], ids=["none", "empty"])
def test_without_recorded_operators_nothing_is_claimed(profile: Profile) -> None:
    assert (calls_attention(profile), gradient_norms(profile)) == (None, None)


def test_norms_within_the_model_are_no_norms_of_gradients() -> None:
    window = a_window(an_op("aten::linalg_vector_norm", phase="forward", calls=9.0))
    assert gradient_norms(a_profile(window=window)) == "none"


def test_grouped_convolutions_are_convolutions_too() -> None:
    assert has_convolutions(a_profile(roots=(a_root(convolution_dimensions=(2,)),)))
    assert not has_convolutions(a_profile(roots=(a_root(),)))

"""Requests for several samples, taken apart where each is answered as if it were alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from advisor.tuners.trial.numerics.request_samples import RequestSamples, samples_asked


def kept(ask: Callable[..., Any], *asked: Any, most: int = 100) -> tuple[RequestSamples, bool]:
    samples = RequestSamples(most)
    with torch.no_grad():
        for args in asked:
            samples.add("Model", (args,), {}, ask(args), samples.names((args,), {}))
        return samples, samples.apart({"Model": ask})


def test_a_batch_is_as_many_samples_as_it_has_rows() -> None:
    layer, inputs = torch.nn.Linear(4, 2), torch.randn(11, 4)
    samples, apart = kept(layer, *inputs.split(4))
    assert apart and len(samples.kept.keys) == len(set(samples.kept.asked)) == 11
    with torch.no_grad():
        assert torch.cat(samples.kept.outputs).allclose(layer(inputs))
    assert all(output.shape == (1, 2) for output in samples.kept.outputs)


def test_a_sample_has_the_same_name_whatever_it_comes_together_with() -> None:
    layer, inputs = torch.nn.Linear(4, 2), torch.randn(8, 4)
    one, other = (kept(layer, *inputs[order].split(4))[0].kept for order in (range(8), range(7, -1, -1)))
    assert one.keys == other.keys[::-1]
    assert kept(layer, inputs[:1].repeat(3, 1))[0].kept.keys == [f"{one.asked[0]}-{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda given: given.cumsum(0),  # a sequence without a batch: what comes before counts
        lambda given: given.flip(0).cumsum(0),
        lambda given: given - given.mean(0),  # as batch norm in training mode
        lambda given: given + torch.rand_like(given),
        lambda given: given[: len(given) // 2],
        lambda given: given.sum(),
        lambda given: (given, 3),
    ],
)
def test_rows_that_depend_on_others_are_one_sample(ask: Callable[[Tensor], Any]) -> None:
    assert not kept(ask, torch.rand(8, 4) + 1.0, torch.rand(8, 4) + 1.0)[1]


def test_no_more_is_kept_than_asked_for_and_one_sample_at_a_time_proves_nothing() -> None:
    layer = torch.nn.Linear(4, 2)
    samples, apart = kept(layer, torch.rand(8, 4), torch.rand(8, 4), most=10)
    assert apart and samples.enough and len(samples.kept.keys) == 10
    assert not kept(layer, torch.rand(1, 4), torch.rand(1, 4))[1]


def test_texts_and_named_tensors_are_samples_too() -> None:
    def pipeline(texts: list[str]) -> list[dict[str, Any]]:
        return [{"label": text[0], "score": len(text) / 10} for text in texts]

    samples, apart = kept(pipeline, ["good", "bad", "worse", "best"])
    assert apart and samples.kept.outputs[1] == {"label": "b", "score": 0.3}
    assert samples_asked(({"input_ids": torch.ones(3, 5)},), {}) == 3
    assert samples_asked((), {"pixels": torch.ones(6, 3, 4, 4)}) == 6
    assert samples_asked(("one text",), {"top_k": 2}) is None


def test_a_model_that_fails_with_other_samples_is_left_as_it_is() -> None:
    def fixed(given: Tensor) -> Tensor:
        if len(given) != 8:
            raise ValueError("made for 8 samples")
        return given

    assert not kept(fixed, torch.rand(8, 4))[1]

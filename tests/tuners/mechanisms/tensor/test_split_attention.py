from typing import Any

import pytest
import torch
from torch import nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.tensor.split_attention import SplitAttention, can_be_split, interleaved

QUERY = torch.linspace(-2, 2, 80).sin().reshape(2, 5, 8)
OTHER = torch.linspace(-1, 3, 48).cos().reshape(2, 3, 8)


def an_attention(**settings: Any) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 4, **{"batch_first": True, **settings})


@pytest.mark.parametrize("settings", [{}, {"bias": False}])
def test_it_computes_what_torchs_does(settings: dict[str, Any]) -> None:
    attention = an_attention(**settings)
    expected, _ = attention(QUERY, QUERY, QUERY, need_weights=False)
    found, weights = SplitAttention(attention)(QUERY, QUERY, QUERY)
    assert weights is None
    torch.testing.assert_close(found, expected)


def test_batches_may_come_second() -> None:
    attention = an_attention(batch_first=False)
    inputs = QUERY.transpose(0, 1)
    expected, _ = attention(inputs, inputs, inputs, need_weights=False)
    torch.testing.assert_close(SplitAttention(attention)(inputs, inputs, inputs)[0], expected)


def test_keys_may_come_from_elsewhere() -> None:
    attention = an_attention()
    expected, _ = attention(QUERY, OTHER, OTHER, need_weights=False)
    torch.testing.assert_close(SplitAttention(attention)(QUERY, OTHER, OTHER)[0], expected)


CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False] * 5, [False, False, False, True, True]])


@pytest.mark.parametrize(
    "masks",
    [
        {"attn_mask": CAUSAL},
        {"attn_mask": CAUSAL, "is_causal": True},
        {"attn_mask": torch.linspace(-1, 1, 25).reshape(5, 5)},
        {"key_padding_mask": PADDED},
        {"attn_mask": CAUSAL, "key_padding_mask": PADDED},
    ],
    ids=["boolean", "causal", "numbers", "padding", "both"],
)
def test_masks_mean_the_same(masks: dict[str, Any]) -> None:
    attention = an_attention()
    expected, _ = attention(QUERY, QUERY, QUERY, need_weights=False, **masks)
    torch.testing.assert_close(SplitAttention(attention)(QUERY, QUERY, QUERY, **masks)[0], expected)


def test_gradients_are_the_same() -> None:
    attention = an_attention()
    split = SplitAttention(attention)
    attention(QUERY, QUERY, QUERY, need_weights=False)[0].pow(2).sum().backward()
    split(QUERY, QUERY, QUERY)[0].pow(2).sum().backward()
    gradients = [layer.weight.grad for layer in (split.query, split.key, split.value)]
    ours = torch.cat([gradient for gradient in gradients if gradient is not None])
    torch.testing.assert_close(ours, attention.in_proj_weight.grad)


def test_it_stands_in_torchs_layers_in_training_and_evaluation() -> None:
    layer = nn.TransformerEncoderLayer(8, 4, 16, dropout=0.0, batch_first=True)
    expected = layer(QUERY)
    layer.register_module("self_attn", SplitAttention(layer.self_attn))
    torch.testing.assert_close(layer(QUERY), expected)
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(QUERY), expected)


def test_what_it_cannot_do_is_refused() -> None:
    split = SplitAttention(an_attention())
    with pytest.raises(Refused, match="without a batch"):
        split(QUERY[0], QUERY[0], QUERY[0])
    with pytest.raises(Refused, match="for each head"):
        split(QUERY, QUERY, QUERY, attn_mask=torch.zeros(8, 5, 5))


@pytest.mark.parametrize(
    "settings", [{"kdim": 4}, {"vdim": 4}, {"add_bias_kv": True}, {"add_zero_attn": True}]
)
def test_what_has_more_than_projections_is_left_alone(settings: dict[str, Any]) -> None:
    assert can_be_split(an_attention())
    assert not can_be_split(an_attention(**settings))


def test_packed_rows_are_ordered_by_the_worker_that_gets_them() -> None:
    layer = nn.Linear(1, 12)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12.0).unsqueeze(1))
        layer.bias.copy_(torch.arange(12.0))
    interleaved(layer, 2)
    expected = [0.0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]
    assert layer.weight.flatten().tolist() == expected
    assert layer.bias.tolist() == expected

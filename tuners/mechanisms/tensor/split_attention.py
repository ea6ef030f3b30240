"""Modules in the form that tensor parallelism takes: projections of their own, in linear layers."""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from advisor.tuners.knob import Refused

UNBATCHED = "attention over a single sequence without a batch dimension"
MASK_PER_HEAD = "attention with a mask of its own for each head"


class SplitAttention(nn.Module):
    """``nn.MultiheadAttention`` with one linear layer each for queries, keys and values.

    It computes as many heads as its projections give columns for, and returns no attention weights.

    Attributes:
        whole: Makes of a local tensor one that all workers are known to hold; set once it is sharded.
    """

    in_proj_weight = in_proj_bias = None  # torch's layers ask for these before they take a fast path

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        width = attention.embed_dim
        weights = attention.in_proj_weight.detach().chunk(3)
        biases = [None] * 3 if attention.in_proj_bias is None else attention.in_proj_bias.detach().chunk(3)
        self.query, self.key, self.value = (
            _linear(weight, bias, attention.in_proj_weight.requires_grad)
            for weight, bias in zip(weights, biases, strict=True)
        )
        out = attention.out_proj
        self.out = _linear(out.weight.detach(), out.bias, out.weight.requires_grad)
        self.head_size = width // attention.num_heads
        self.num_heads = attention.num_heads
        self.embed_dim = width
        self.batch_first = attention.batch_first
        self.dropout = attention.dropout
        self.training = attention.training
        self.whole: Any = None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """As ``nn.MultiheadAttention``; the weights are ``None`` also where they are asked for.

        Raises:
            Refused: Inputs without a batch, or a mask of three dimensions.
        """
        if query.dim() != 3:
            raise Refused(UNBATCHED)
        mask = _mask(attn_mask, key_padding_mask, query.dtype)
        if self.whole is not None and query is key and key is value:
            query = key = value = self.whole(query)  # its gradient is summed over workers once, not thrice
        query, key, value = (
            self._heads(layer(inputs))
            for layer, inputs in ((self.query, query), (self.key, key), (self.value, value))
        )
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, dropout)
        mixed = mixed.transpose(1, 2).flatten(2)
        output: Tensor = self.out(mixed if self.batch_first else mixed.transpose(0, 1))
        return output, None

    def _heads(self, projected: Tensor) -> Tensor:
        batched = projected if self.batch_first else projected.transpose(0, 1)
        heads: Tensor = batched.unflatten(-1, (-1, self.head_size))
        return heads.transpose(1, 2)


def can_be_split(attention: nn.Module) -> bool:
    """Whether ``SplitAttention`` can stand for it."""
    return (
        type(attention) is nn.MultiheadAttention
        and attention._qkv_same_embed_dim
        and attention.bias_k is None
        and not attention.add_zero_attn
    )


def without_conv1d(model: nn.Module) -> None:
    """Put linear layers in the place of GPT-2's ``Conv1D``, which is one with its weight transposed."""
    library = sys.modules.get("transformers.pytorch_utils")
    if library is None:
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is library.Conv1D:
                setattr(module, name, _of_conv1d(child).train(child.training))


def interleaved(layer: nn.Linear, workers: int, packed: int = 3) -> None:
    """Order the rows of a layer that makes queries, keys and values at once by the worker that gets them."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parts = parameter.unflatten(0, (packed, workers, -1)).transpose(0, 1)
            parameter.copy_(parts.reshape(parameter.shape).clone())


def _of_conv1d(layer: Any) -> nn.Linear:
    return _linear(layer.weight.detach().t().contiguous(), layer.bias, layer.weight.requires_grad)


def _linear(weight: Tensor, bias: Tensor | None, requires_grad: bool) -> nn.Linear:
    layer = nn.Linear(weight.size(1), weight.size(0), bias is not None, device="meta", dtype=weight.dtype)
    layer.weight = nn.Parameter(weight.clone(), requires_grad)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad)
    return layer


def _mask(attn_mask: Tensor | None, padding: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Both masks as numbers to add to the scores; ``-inf`` where a key is not seen."""
    if attn_mask is not None and attn_mask.dim() != 2:
        raise Refused(MASK_PER_HEAD)
    if padding is not None:
        padding = _added(padding, dtype)[:, None, None, :]
    if attn_mask is None:
        return padding
    attn_mask = _added(attn_mask, dtype)
    return attn_mask if padding is None else attn_mask + padding


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))

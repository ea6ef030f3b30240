"""Zeros and masks in the weights of a served model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from advisor.profiles.hooks.serving.timing import fastest_s

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SAMPLED = 65_536  # elements of a tensor


def zeros(modules: "Iterable[Module]") -> float | None:
    """The share of zeros in weights of two dimensions and more, by samples; ``None`` without such."""
    tensors = {id(each): each for module in modules for each in module.parameters() if each.dim() >= 2}
    tensors = {key: each for key, each in tensors.items() if each.is_floating_point()}
    whole = sum(each.numel() for each in tensors.values())
    masked = {id(orig): mask for orig, mask in masks_of(modules)}
    empty = sum(each.numel() * _share(masked.get(key, each)) for key, each in tensors.items())
    return empty / whole if whole else None


def masks_of(modules: "Iterable[Module]") -> "list[tuple[Tensor, Tensor]]":
    """Weights that ``torch.nn.utils.prune`` multiplies with a mask in each call, and the masks."""
    found = {}
    for module in modules:
        for member in module.modules():
            for name, orig in member.named_parameters(recurse=False):
                mask = getattr(member, f"{name.removesuffix('_orig')}_mask", None)
                if name.endswith("_orig") and mask is not None:
                    found[id(orig)] = orig, mask
    return list(found.values())


def mask_ms(pairs: "list[tuple[Tensor, Tensor]]") -> float:
    """Milliseconds that multiplying them all takes."""
    return 1e3 * sum(_product_s(orig, mask) for orig, mask in pairs)


def _product_s(orig: "Tensor", mask: "Tensor") -> float:
    return fastest_s(lambda: orig * mask)[0]


def _share(tensor: "Tensor") -> float:
    flat = tensor.detach().reshape(-1)
    if not len(flat):
        return 0.0
    sample = flat[:: (len(flat) // SAMPLED) | 1]  # an odd stride meets rows and columns of any size
    return float((sample == 0).float().mean())

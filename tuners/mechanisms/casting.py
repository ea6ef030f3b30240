"""Half-precision outputs turned back into float32, whatever holds them."""

import copy
import dataclasses
from typing import Any


def to_float32(output: Any) -> Any:
    """``output`` with every float16 or bfloat16 tensor in it as float32; unchanged parts are shared.

    Follows tuples (named ones too), lists, dictionaries and dataclasses, so also the output classes of
    Hugging Face models; containers keep their type, and the original object is not modified.
    """
    import torch

    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    if isinstance(output, dict):
        return _with_items(output, {key: to_float32(part) for key, part in output.items()})
    if isinstance(output, tuple | list):
        parts = [to_float32(part) for part in output]
        if all(new is old for new, old in zip(parts, output, strict=True)):
            return output
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return _with_fields(output)
    return output


def _with_items(output: dict[Any, Any], parts: dict[Any, Any]) -> dict[Any, Any]:
    changed = {key: part for key, part in parts.items() if part is not output[key]}
    if not changed:
        return output
    result = copy.copy(output)
    for key, part in changed.items():  # one by one: output classes mirror their items as attributes
        result[key] = part
    return result


def _with_fields(output: Any) -> Any:
    parts = {field.name: to_float32(getattr(output, field.name)) for field in dataclasses.fields(output)}
    changed = {name: part for name, part in parts.items() if part is not getattr(output, name)}
    if not changed:
        return output
    result = copy.copy(output)
    for name, part in changed.items():
        object.__setattr__(result, name, part)  # frozen ones too
    return result

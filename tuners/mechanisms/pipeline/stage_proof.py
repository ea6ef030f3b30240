"""Whether the stages of a model, given one part of a batch after the other, compute what the model does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.micro_batches import Splitting
from advisor.tuners.mechanisms.pipeline.output_loss import loss_of_output, model_input
from advisor.tuners.strategy import Loss

NO_TENSOR = "the model returns more than one tensor"
OTHER = "the stages one after another do not compute what the model does"
IN_PLACE = "a stage changes in place what it gets from the one before"
BORDER = "what passes from one stage to the next is no tensor of floating-point numbers"
MIXED = "the model mixes samples of a batch, so it cannot compute a batch in parts"
BUFFERS = "the forward changes buffers, which would happen once per micro-batch instead of once per batch"
NO_MEAN = "the loss of a batch is not the mean of the losses of its parts"


def in_parts(batch: Any, count: int) -> list[Any]:
    """The micro-batches of a batch.

    Raises:
        Refused: It has no such parts.
    """
    splitting = Splitting(count)
    parts = [part for part, _ in splitting.split(batch)]
    if splitting.refusal is not None:
        raise Refused(splitting.refusal)
    return parts


def prove(model: nn.Module, stages: Sequence[nn.Module], loss: Loss, batch: Any, parts: int) -> None:
    """Compute a batch in all ways that must agree, without keeping a graph; done once, by every worker alone.

    Raises:
        Refused: They do not agree.
    """
    inputs = model_input(batch)
    micro_batches = in_parts(batch, parts)
    with torch.no_grad(), _random_numbers_kept(inputs.device):
        outputs = [_same_output(model, stages, model_input(part)) for part in micro_batches]
        state = _random_state(inputs.device)
        whole = model(inputs.clone())
        drawn = not torch.equal(state, _random_state(inputs.device))
        joined = torch.cat([torch.atleast_1d(output) for output in outputs])
        if not drawn and not _close(whole, joined):  # with dropout the two differ in any case
            raise Refused(MIXED)
    losses = [_loss(loss, *pair) for pair in zip(outputs, micro_batches, strict=True)]
    if not _close(_loss(loss, joined, batch), torch.stack(losses).mean()):
        raise Refused(NO_MEAN)


def _same_output(model: nn.Module, stages: Sequence[nn.Module], inputs: Tensor) -> Tensor:
    versions = [buffer._version for buffer in model.buffers()]
    with _random_numbers_kept(inputs.device):
        expected = model(inputs.clone())  # which may change them in place
    if versions != [buffer._version for buffer in model.buffers()]:
        raise Refused(BUFFERS)
    if not isinstance(expected, Tensor):
        raise Refused(NO_TENSOR)
    passed: Any = inputs.clone()
    for stage in stages:
        version, given = passed._version, passed
        passed = stage(given)
        if stage is not stages[0] and given._version != version:
            raise Refused(IN_PLACE)
        if not isinstance(passed, Tensor) or (stage is not stages[-1] and not passed.is_floating_point()):
            raise Refused(BORDER)
    if not _close(passed, expected):
        raise Refused(OTHER)
    assert isinstance(passed, Tensor)
    return passed


def _loss(loss: Loss, output: Tensor, batch: Any) -> Tensor:
    leaf = output.detach()
    return loss_of_output(loss, leaf.requires_grad_(leaf.is_floating_point()), batch).detach()


def _close(found: Tensor, expected: Tensor) -> bool:
    """Whether two results differ by rounding only, measured against the largest value."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    tolerance = float(torch.finfo(expected.dtype).eps) ** 0.5
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


@contextmanager
def _random_numbers_kept(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def _random_state(device: torch.device) -> Tensor:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)

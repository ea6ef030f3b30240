"""A probe looks at activations by hooks, which it registers anew in every step and never takes away."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv


class Probe:
    def __init__(self) -> None:
        self.seen: dict[str, Tensor] = {}
        self.handles: list[Any] = []

    def attach(self, model: nn.Module) -> None:
        for name, module in model.named_children():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_hook(self.noting(name)))

    def noting(self, name: str) -> Any:
        def note(module: nn.Module, inputs: Any, output: Tensor) -> None:
            self.seen[name] = output.detach().square().mean()

        return note

    def detach(self) -> None:
        while self.handles:
            self.handles.pop().remove()


def main() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(256, 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    data, wanted = torch.randn(4096, 256), torch.randn(4096, 16)
    probe = Probe()
    for step in range(1_000_000):
        rows = slice(step % 32 * 128, step % 32 * 128 + 128)
        probe.attach(model)
        loss = nn.functional.mse_loss(model(data[rows]), wanted[rows])
        if REPAIRED:
            probe.detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

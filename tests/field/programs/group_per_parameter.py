"""Every parameter has a group of its own, though only a few settings differ; the optimizer is fused."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
WIDTH, LAYERS = 32, 60


def groups_of(model: nn.Sequential) -> list[dict[str, object]]:
    """Rates by depth, no decay for biases."""
    groups = []
    for name, parameter in model.named_parameters():
        late = int(name.partition(".")[0]) > LAYERS
        groups.append(
            {
                "params": [parameter],
                "lr": 1e-3 if late else 5e-4,
                "weight_decay": 0.01 if parameter.ndim > 1 else 0.0,
            }
        )
    return groups


def joined(groups: list[dict[str, object]]) -> list[dict[str, object]]:
    by_settings: dict[tuple[object, object], list[object]] = {}
    for group in groups:
        by_settings.setdefault((group["lr"], group["weight_decay"]), []).extend(group["params"])  # type: ignore[call-overload]
    return [{"params": p, "lr": lr, "weight_decay": decay} for (lr, decay), p in by_settings.items()]


def main() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 4))
    groups = groups_of(model)
    optimizer = torch.optim.AdamW(joined(groups) if REPAIRED else groups, fused=True)
    for _ in range(50_000):
        x = torch.randn(32, WIDTH)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

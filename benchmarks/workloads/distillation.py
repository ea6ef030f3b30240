"""A small network learns from a larger one, which is only asked and stays as it is.

Knobs that matter: amp and num_threads, most of all in the larger network, whose forward pass is most of the
step. Trap: optimizer_implementation touches only the small network and gains next to nothing.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 256
KINDS = 10
WARMTH = 4.0


def network(width: int, depth: int) -> nn.Sequential:
    """Features in, scores of the kinds out."""
    layers: list[nn.Module] = [nn.Linear(FEATURES, width), nn.GELU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, KINDS))


def difference(student: Tensor, teacher: Tensor) -> Tensor:
    """How far the student's probabilities are from the teacher's, both flattened (Hinton et al., 2015)."""
    return WARMTH**2 * nn.functional.kl_div(
        (student / WARMTH).log_softmax(1), (teacher / WARMTH).softmax(1), reduction="batchmean"
    )


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(0)
    teacher = network(1024, 3).eval().requires_grad_(False)
    student = network(96, 1)
    examples = TensorDataset(torch.randn(4096, FEATURES))
    loader = DataLoader(examples, batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for (features,) in loader:
            with torch.no_grad():
                told = teacher(features)
            loss = difference(student(features), told)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()

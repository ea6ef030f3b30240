"""A small vision transformer on generated images; random weights, no download.

Knobs that matter: amp (1.6 times; every setting with it gave 1.6 to 1.9, every other 1.00 to 1.06), and
matmul_precision=medium in its place. Trap: channels_last, which is allowed since the patches are cut out by
a convolution, and gains nothing (1.00).
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification

CLASSES = 10
SIDE = 32


def images(count: int) -> TensorDataset:
    """One blurred pattern per class, under noise."""
    patterns = nn.functional.interpolate(torch.randn(CLASSES, 3, 8, 8), size=SIDE, mode="bilinear")
    labels = torch.randint(CLASSES, (count,))
    return TensorDataset(patterns[labels] + 0.5 * torch.randn(count, 3, SIDE, SIDE), labels)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()

    torch.manual_seed(0)
    config = ViTConfig(
        image_size=SIDE, patch_size=4, hidden_size=192, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=768, num_labels=CLASSES,
    )  # fmt: skip
    model = ViTForImageClassification(config)
    model.train()
    loader = DataLoader(images(2048), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    step = 0
    while step < options.steps:
        for pixels, labels in loader:
            loss = nn.functional.cross_entropy(model(pixel_values=pixels).logits, labels)
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

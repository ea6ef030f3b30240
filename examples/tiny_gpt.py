"""A small character-level language model on generated text, without a DataLoader.

Batches are cut out of one long tensor in memory, and the gradients of several of them can be
accumulated before an update.
"""

import argparse
import random

import torch
from torch import Tensor, nn

WORDS = ("the", "a", "small", "large", "dog", "cat", "bird", "house", "river", "sees", "finds", "near")
BLOCK = 64


def generated_text(sentences: int = 4000) -> str:
    source = random.Random(0)
    return "\n".join(" ".join(source.choices(WORDS, k=source.randint(4, 9))) for _ in range(sentences))


class Block(nn.Module):
    """Attention to earlier characters, then a small network for each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Activations of (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        change: Tensor = self.mlp(x)
        return x + change


class TinyGPT(nn.Module):
    """Characters in, scores of the next character out."""

    def __init__(self, vocabulary: int, layers: int = 4, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(BLOCK, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, characters: Tensor) -> Tensor:
        """Character numbers of (batch, length) to scores of (batch, length, vocabulary)."""
        x = self.characters(characters) + self.positions.weight[: characters.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(self.norm(x))
        return scores


def get_batch(data: Tensor, size: int) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(data) - BLOCK - 1, (size,)).tolist()
    inputs = torch.stack([data[start : start + BLOCK] for start in starts])
    targets = torch.stack([data[start + 1 : start + BLOCK + 1] for start in starts])
    return inputs, targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulation", type=int, default=1, help="batches per update")
    options = parser.parse_args()

    torch.manual_seed(0)
    text = generated_text()
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    data = torch.tensor([numbers[character] for character in text])
    model = TinyGPT(len(numbers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for step in range(options.steps):
        total = 0.0
        for _ in range(options.accumulation):
            inputs, targets = get_batch(data, options.batch_size)
            loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            (loss / options.accumulation).backward()
            total += loss.item() / options.accumulation
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == options.steps - 1:
            print(f"step {step} loss {total:.4f}", flush=True)


if __name__ == "__main__":
    main()

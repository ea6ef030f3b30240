"""A small transformer that does everything right already: bfloat16 by its own autocast, a fused update.

Knobs that matter: none; this is the null case. Traps: the fused update must be kept, amp must be refused
since the program uses autocast itself, and neither matmul_precision nor placebo may be taken for a gain.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY = 512
LENGTH = 48
WIDTH = 192


class Transformer(nn.Module):
    """Tokens in, scores of one class out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers of (batch, length) to scores of (batch, 2)."""
        scores: Tensor = self.head(self.layers(self.embedding(tokens)).mean(1))
        return scores


def sentences(count: int) -> TensorDataset:
    """Tokens whose mean says the class."""
    tokens = torch.randint(VOCABULARY, (count, LENGTH))
    return TensorDataset(tokens, (tokens.float().mean(1) > VOCABULARY / 2).long())


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Transformer()
    loader = DataLoader(sentences(2048), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    step = 0
    while step < options.steps:
        for tokens, labels in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(tokens), labels)
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

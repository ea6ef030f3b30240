"""A small BERT that classifies generated token sequences; random weights, no download.

Knobs that matter: amp (1.8 to 2.0 times on the usual size), matmul_precision=medium (1.4 to 1.6),
optimizer_implementation (1.16). Trap: amp and matmul_precision narrow the same products, so their gains do
not multiply; the model has dropout, so losses differ between memory layouts.
"""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 1000
LENGTH = 48


def sentences(count: int) -> TensorDataset:
    """Tokens whose mean says the class."""
    tokens = torch.randint(1, VOCABULARY, (count, LENGTH))
    return TensorDataset(tokens, (tokens.float().mean(1) > VOCABULARY / 2).long())


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=1024, max_position_embeddings=LENGTH, num_labels=2,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    model.train()
    loader = DataLoader(sentences(2048), batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    step = 0
    while step < options.steps:
        for tokens, labels in loader:
            loss = model(input_ids=tokens, labels=labels).loss
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

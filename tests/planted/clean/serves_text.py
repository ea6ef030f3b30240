"""Writes a few tokens for each prompt, with keys and values of earlier ones kept."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
config = GPT2Config(
    n_layer=2, n_embd=128, n_head=4, vocab_size=500, n_positions=128, bos_token_id=0, eos_token_id=0
)
model = GPT2LMHeadModel(config).eval()
prompts = torch.randint(1, 500, (32, 1, 24))
for turn in range(1_000_000):
    prompt = prompts[turn % 32]
    with torch.inference_mode():
        model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4, do_sample=False, pad_token_id=0
        )

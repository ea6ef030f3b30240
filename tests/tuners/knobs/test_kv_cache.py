"""Keys and values of a generation: what is seen, what is tried, and that the tokens stay the same."""

from typing import Any

import pytest
import torch
from answering import answering
from builders import a_profile, a_served_profile

from advisor.profiles.events import Run
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.kv_cache import KvCache


def a_model(**config: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config |= {
        "n_layer": 1,
        "n_head": 2,
        "n_embd": 16,
        "vocab_size": 50,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    model: Any = GPT2LMHeadModel(GPT2Config(**config))
    return model.eval()


def generated(model: Any, **arguments: Any) -> list[int]:
    settings = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, **arguments}
    tokens = model.generate(torch.arange(1, 7)[None], attention_mask=torch.ones(1, 6), **settings)
    return [int(token) for token in tokens[0]]


@pytest.mark.parametrize(
    ("config", "arguments", "cache"),
    [
        ({}, {}, "dynamic"),
        ({}, {"use_cache": False}, "off"),
        ({"use_cache": False}, {}, "off"),
        ({"use_cache": False}, {"use_cache": True}, "dynamic"),
        ({}, {"cache_implementation": "static"}, "static"),
    ],
)
def test_what_a_generation_keeps_is_seen(config: Any, arguments: Any, cache: str) -> None:
    with answering() as seen:
        generated(a_model(**config), **arguments)
    assert seen.served.cache == cache and len(seen.steps) == 1


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_cache_leaves_one_token_a_call_and_the_same_text(kind: str) -> None:
    model, lengths = a_model(use_cache=False), list[int]()
    model.transformer.h[0].register_forward_pre_hook(lambda layer, args: lengths.append(args[0].size(1)))
    run = Run({"kv_cache": KvCache()}, {"kv_cache": "off"}, Refused)
    told: list[Any] = []
    with answering(run=run) as seen:
        seen.watch.requests.listener = lambda kind, args, kwargs, output: told.append(kwargs)
        plain, before = generated(model), list(lengths)
        lengths.clear()
        run.configure({"kv_cache": kind})
        kept = generated(model)
    assert before == [6, 7, 8, 9, 10] and lengths == [6, 1, 1, 1, 1]
    assert kept == plain and run.applied == {"kv_cache"}
    assert seen.served.cache == "off"  # of the program itself
    assert told[0].keys() == told[1].keys()  # by which its answers are told apart


def test_where_it_is_off_both_kinds_are_tried() -> None:
    assert KvCache().choices(a_served_profile(cache="off")) == ["off", "dynamic", "static"]


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (a_served_profile(cache="dynamic"), "kept already"),
        (a_served_profile(cache="own"), "kept already"),
        (a_served_profile(), "no call"),
        (a_profile(), "no call"),
    ],
)
def test_where_it_is_on_or_nothing_is_generated_there_is_nothing_to_try(profile: Profile, why: str) -> None:
    with pytest.raises(Refused, match=why):
        KvCache().check("static", profile)

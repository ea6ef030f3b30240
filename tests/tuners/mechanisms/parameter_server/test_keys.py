"""Keys: who gets them, and how they travel."""

import pytest
import torch

from advisor.tuners.mechanisms.parameter_server.keys import Key, key_of, pack, runs, split_keys, unpack


def a_key(name: str, nbytes: int) -> Key:
    return Key(name, (nbytes // 4,), "float32", nbytes)


def names(parts: list[list[Key]]) -> list[list[str]]:
    return [[key.name for key in part] for part in parts]


def test_the_largest_keys_are_given_away_first_so_that_bytes_balance() -> None:
    keys = [a_key("a", 40), a_key("b", 400), a_key("c", 160), a_key("d", 200), a_key("e", 40)]
    parts = split_keys(keys, [0, 0])
    assert names(parts) == [["b", "e"], ["a", "c", "d"]]
    assert [sum(key.nbytes for key in part) for part in parts] == [440, 400]


def test_what_servers_hold_already_counts() -> None:
    keys = [a_key("a", 40), a_key("b", 40)]
    assert names(split_keys(keys, [1000, 0])) == [[], ["a", "b"]]


def test_keys_without_bytes_are_spread_too() -> None:
    assert names(split_keys([a_key("a", 0), a_key("b", 0)], [0, 0])) == [["a"], ["b"]]


def test_small_keys_share_a_message_and_a_large_one_travels_alone() -> None:
    keys = [a_key("a", 16), a_key("b", 32), a_key("c", 400), a_key("d", 16)]
    assert names(list(runs(keys, 48))) == [["a", "b"], ["c"], ["d"]]
    assert names(list(runs(keys, 10_000))) == [["a", "b", "c", "d"]]


def test_no_message_is_larger_than_the_limit_allows() -> None:
    keys = [a_key(str(number), 4 * number) for number in range(1, 40)]
    assert all(len(run) == 1 or sum(key.room for key in run) <= 200 for run in runs(keys, 200))
    assert [key for run in runs(keys, 200) for key in run] == keys


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
def test_values_of_any_type_and_shape_arrive_as_they_were(dtype: torch.dtype) -> None:
    tensors = [
        torch.arange(6).reshape(2, 3).to(dtype),
        torch.tensor(7).to(dtype),
        torch.zeros(0, 4, dtype=dtype),
        torch.arange(12).reshape(3, 4).to(dtype).t(),
        torch.tensor([0.5]),
    ]
    keys = [key_of(str(at), tensor) for at, tensor in enumerate(tensors)]
    payload = pack(keys, tensors)
    assert payload.dtype == torch.uint8 and payload.numel() == sum(key.room for key in keys)
    for value, tensor in zip(unpack(keys, payload), tensors, strict=True):
        assert torch.equal(value, tensor)


def test_a_key_survives_its_way_as_json() -> None:
    key = key_of("layer.weight", torch.zeros(2, 3, dtype=torch.bfloat16), group=1)
    assert key == Key("layer.weight", (2, 3), "bfloat16", 12, 1)
    assert Key.from_json(key.as_json()) == key

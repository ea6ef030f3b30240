"""A configuration is its content: as a key, as text, and beside another one."""

from advisor.tuners.space.configuration import Configuration


def test_equal_settings_have_one_key_in_any_order() -> None:
    one, other = Configuration({"b": 2, "a": "on"}), Configuration({"a": "on", "b": 2})
    assert one == other == {"a": "on", "b": 2} and len({one, other}) == 1
    assert one.key == other.key == '{"a": "on", "b": 2}'  # as it stands in stored studies
    assert Configuration({"a": 1}) != Configuration({"a": "1"})


def test_its_text_is_read_back() -> None:
    config = Configuration({"num_workers": 2, "amp": "bf16"})
    assert Configuration.from_key(config.key) == config


def test_what_differs_from_the_present_is_told_in_its_own_order() -> None:
    config = Configuration({"workers": 2, "amp": "bf16", "new": 1, "same": 0})
    assert list(config.changed({"amp": "off", "workers": 1, "same": 0}).items()) == [
        ("workers", 2), ("amp", "bf16"), ("new", 1),
    ]  # fmt: skip


def test_it_never_changes() -> None:
    values = {"amp": "off"}
    config = Configuration(values)
    values["amp"] = "bf16"
    assert config.with_({"amp": "fp16", "new": 1}) == {"amp": "fp16", "new": 1}
    assert config == {"amp": "off"}

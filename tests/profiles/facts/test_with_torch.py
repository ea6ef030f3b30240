"""What only torch knows of a machine."""

from builders import a_machine

from advisor.profiles.facts.machine import with_torch


def test_the_speed_of_bf16_is_measured_once_in_a_process() -> None:
    first, again = (with_torch(a_machine(), default_threads=1) for _ in range(2))
    assert first.bf16_speedup is not None and first.bf16_speedup > 0
    assert again.bf16_speedup == first.bf16_speedup  # two measurements never agree to the last digit

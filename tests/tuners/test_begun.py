from builders import a_loader, a_machine, a_rich_profile

from advisor.tuners.begun import NOT_THEN, as_begun
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space import Space, build_space


def a_space(**options: object) -> Space:
    profile = a_rich_profile(a_machine(cpus_allowed=2, physical_cores=2))
    return build_space(KNOBS, profile, **options)  # type: ignore[arg-type]  # whatever a test asks for


def reasons(space: Space, knob: str) -> list[tuple[Value | None, str]]:
    return [(left.value, left.reason) for left in space.not_tried if left.knob == knob]


def test_the_choices_are_those_of_the_first_part_in_its_order() -> None:
    now = a_space(named={"num_workers": None, "amp": None, "malloc": None})
    own = now.own["num_workers"]
    again = as_begun(now, {"num_workers": [own, 4, 1], "prefetch_factor": [2, 8]}, KNOBS)
    assert again.choices == {"num_workers": [own, 4, 1], "prefetch_factor": [2, 8]}
    assert again.present == {"num_workers": own, "prefetch_factor": 2}
    assert reasons(again, "amp") == [(None, NOT_THEN)]
    assert not [value for value, _ in reasons(again, "num_workers") if value == 4]


def test_a_space_that_is_begun_with_its_own_choices_is_the_same() -> None:
    now = a_space(named=dict.fromkeys(("num_workers", "amp", "malloc", "num_threads", "channels_last")))
    assert len(now.choices) > 2
    again = as_begun(now, now.choices, KNOBS)
    assert (again.choices, again.present) == (now.choices, now.present)
    assert {(left.knob, left.value, left.reason) for left in again.not_tried} == {
        (left.knob, left.value, left.reason) for left in now.not_tried
    }


def test_what_is_fixed_stays_fixed() -> None:
    now = a_space(named={"amp": None}, fixed={"num_threads": 1})
    assert as_begun(now, {"amp": ["off", "bf16"]}, KNOBS).present == {"amp": "off", "num_threads": 1}


def test_nothing_is_taken_over_that_the_knobs_do_not_allow() -> None:
    now = a_space(named={"amp": None})
    own = now.own["num_workers"]
    stored: dict[str, list[Value]] = {
        "amp": ["off", "bf16", "sh -c id"], "num_workers": [own, "1", -1, 10**9], "made_up": ["a", "b"],
        "num_threads": [99, 1],
    }  # fmt: skip
    again = as_begun(now, stored, KNOBS)
    assert again.choices == {"amp": ["off", "bf16"], "num_workers": [own]}
    assert reasons(again, "amp") == [("sh -c id", "no such value")]
    assert [value for value, _ in reasons(again, "num_workers")] == ["1", -1, 10**9]
    assert len(reasons(again, "made_up")) == 1 and len(reasons(again, "num_threads")) == 1


def test_what_cannot_work_on_this_run_is_left_out() -> None:
    profile = a_rich_profile(a_machine(), loader=a_loader(iterable=True))
    now = build_space(KNOBS, profile, named={"num_workers": None})
    own = now.own["num_workers"]
    again = as_begun(now, {"num_workers": [own, 2]}, KNOBS)
    assert again.choices == {"num_workers": [own]}
    assert reasons(again, "num_workers")[0][0] == 2

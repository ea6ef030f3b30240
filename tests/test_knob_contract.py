"""What holds for every knob, by its contract."""

import subprocess
import sys

import pytest
from builders import a_gpu_profile, a_profile, a_rich_profile

from advisor.profiles.events import EVENTS
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.tuners.knob import AnyKnob, Knob, Refused, Semantics
from advisor.tuners.knobs import KNOBS
from advisor.tuners.on_off_knob import Switch
from advisor.tuners.strategy_knob import StrategySetting
from advisor.tuners.worker_knob import WorkerSetting

every_knob = pytest.mark.parametrize("name", KNOBS)
every_profile = pytest.mark.parametrize(
    "profile",
    [a_rich_profile(), a_gpu_profile(), a_profile(), a_rich_profile(target_kind="script")],
    ids=["rich", "gpu", "bare", "script"],
)


def offered(knob: AnyKnob, profile: Profile) -> list[object] | None:
    try:
        return list(knob.choices(profile))
    except Refused as reason:
        assert str(reason)
        return None


def test_the_folder_holds_the_knobs_of_the_page() -> None:
    assert {
        "amp", "batch_size", "channels_last", "execution", "lr_scaling", "matmul_precision", "num_threads",
        "num_workers", "optimizer_implementation", "persistent_workers", "pin_memory", "placebo",
        "prefetch_factor",
    } <= set(KNOBS)  # fmt: skip


@every_knob
@every_profile
def test_a_knob_offers_its_present_setting_first_or_says_why_not(name: str, profile: Profile) -> None:
    knob = KNOBS[name]
    choices = offered(knob, profile)
    if choices is None:
        return
    assert len(choices) == len(set(choices)) > 1
    assert choices[0] == knob.present(profile)


@every_knob
@every_profile
def test_choices_are_legal_and_can_be_spelt_on_a_command_line(name: str, profile: Profile) -> None:
    knob = KNOBS[name]
    for choice in offered(knob, profile) or []:
        assert knob.parse(str(choice)) == choice
        knob.check(choice, profile)


@every_knob
def test_every_value_can_be_adopted(name: str) -> None:
    knob = KNOBS[name]
    legal = knob.values()
    for value in (legal[0], legal[1], legal[-1]) if isinstance(legal, range) else legal:
        assert knob.change(value).snippet


@every_knob
def test_a_value_that_is_none_is_answered_with_the_legal_ones(name: str) -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        KNOBS[name].parse("nothing")


@every_knob
def test_a_knob_declares_what_it_does(name: str) -> None:
    knob = KNOBS[name]
    assert isinstance(knob.semantics, Semantics)
    assert all(hasattr(StepPhases(1.0), f"{part}_ms") for part in knob.acts_on)
    assert 0 <= knob.usual_gain < 1
    kinds = [kind for kind in (StrategySetting, WorkerSetting) if isinstance(knob, kind)]
    own = {name for kind in (type(knob), *kinds) for name in vars(kind)}
    assert set(EVENTS) & own, "it subscribes to no event"


@every_knob
def test_no_public_name_of_a_knob_is_a_misspelt_event(name: str) -> None:
    known = {*EVENTS, *vars(Knob), *Knob.__annotations__, "skipped_steps"}
    known |= {*vars(StrategySetting), *StrategySetting.__annotations__, *vars(Switch)}
    assert [part for part in vars(type(KNOBS[name])) if part[0] != "_" and part not in known] == []


@every_knob
def test_the_page_of_a_knob_says_more_than_one_line(name: str) -> None:
    page = type(KNOBS[name]).__doc__
    assert page is not None
    assert len(page.split()) > 15


def test_importing_every_knob_leaves_heavy_packages_out() -> None:
    code = (
        "import sys, advisor.tuners.knobs, advisor.tuners.space.space\n"
        "print([name for name in ('torch', 'optuna', 'scipy', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

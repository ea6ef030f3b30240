"""Numbers of threads are not compared while threads wait for one that has no CPU."""

from typing import Any

import pytest

from advisor.tuners.comparing.excluded import refuse_collapse
from advisor.tuners.knob import Config
from advisor.tuners.supervision.failures import Failure, TrialFailed, is_disruption
from advisor.tuners.trial.messages import Slot

ONE: Config = {"num_threads": 1, "amp": "off"}
TWO: Config = {"num_threads": 2, "amp": "off"}
BUSY = {"cpu_s": 1.9}  # of two slots of a second each, CPUs or seconds of each
ALONE = {"cpu_s": 1.0}
COLLAPSED = {"cpu_s": 1.1, "other_cpu_s": 0.9}


def slots(**facts: Any) -> list[Slot]:
    return [Slot((0.5, 0.5), **facts), Slot((0.5, 0.5), **facts)]


@pytest.mark.parametrize(
    ("configs", "arms"),
    [
        ((ONE, TWO), (ALONE, COLLAPSED)),
        ((TWO, ONE), (COLLAPSED, ALONE)),
        ((TWO, {**ONE, "amp": "bf16"}), (COLLAPSED, ALONE)),
    ],
    ids=["the candidate", "the incumbent", "beside another change"],
)
def test_threads_that_collapse_beside_other_load_void_a_comparison_of_their_number(
    configs: tuple[Config, Config], arms: Any
) -> None:
    with pytest.raises(TrialFailed) as raised:
        refuse_collapse(configs, (slots(**arms[0]), slots(**arms[1])), cpus=2)
    message = "thread_collapse: 2 threads had 1.1 CPUs beside 0.9 of other load"
    assert raised.value.failure == Failure("interference", message)
    assert is_disruption(raised.value.failure)  # so it is measured once more


@pytest.mark.parametrize(
    ("configs", "second", "cpus"),
    [
        ((ONE, TWO), {"cpu_s": 1.1}, 2),
        ((ONE, TWO), {"cpu_s": 1.7, "other_cpu_s": 0.9}, 2),
        ((ONE, TWO), COLLAPSED, 4),
        ((TWO, {**TWO, "amp": "bf16"}), COLLAPSED, 2),
        ((TWO, ONE), COLLAPSED, 2),
    ],
    ids=[
        "a step that is not parallel, on a quiet machine",
        "threads that have their CPUs",
        "load that finds room beside the threads",
        "the number of threads does not differ",
        "one thread cannot wait for another",
    ],
)
def test_without_a_collapse_numbers_of_threads_are_compared(
    configs: tuple[Config, Config], second: dict[str, float], cpus: int
) -> None:
    refuse_collapse(configs, (slots(**BUSY), slots(**second)), cpus=cpus)


def test_ranks_share_the_cpus_whatever_number_of_threads_is_set() -> None:
    arms = (slots(**ALONE), slots(cpu_s=1.8, other_cpu_s=0.2))
    refuse_collapse((ONE, {**TWO, "ranks": 2}), arms, cpus=2)


@pytest.mark.parametrize(("cpu_s", "refused"), [(3.4, False), (1.9, True)])
def test_of_several_ranks_the_threads_of_all_count(cpu_s: float, refused: bool) -> None:
    two = {**TWO, "ranks": 2}
    arms = (slots(**ALONE), slots(cpu_s=cpu_s, other_cpu_s=0.9))
    if not refused:
        refuse_collapse((ONE, two), arms, cpus=4)
        return
    with pytest.raises(TrialFailed, match="4 threads had"):
        refuse_collapse((ONE, two), arms, cpus=4)

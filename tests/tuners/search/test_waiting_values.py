"""Values of which nothing is expected wait until all others were looked at; more of a cure is followed."""

from collections.abc import Mapping

from scripted_search import a_search

from advisor.tuners.knob import Value

CHOICES: dict[str, list[Value]] = {
    "execution": ["eager", "jit_script", "compile"],
    "malloc": ["libc", "libc-tuned"],
}


def test_a_value_that_promises_nothing_waits_for_those_of_later_knobs() -> None:
    search, arena, _ = a_search(lambda config: 1.0, CHOICES, priorities={"execution": 0.9})
    search.run(None)
    looked_at = dict.fromkeys(
        value
        for config in arena.measured
        for name, value in config.items()
        if value != CHOICES[name][0] and sum(config[each] != CHOICES[each][0] for each in CHOICES) == 1
    )
    assert list(looked_at) == ["compile", "libc-tuned", "jit_script"]


def screened_beside_fused(own: int, speed: dict[int, float]) -> list[Value]:
    """Numbers of workers that are screened once a fused optimizer is in; a third of the step waits."""

    def together(config: Mapping[str, Value]) -> float:
        fused = config["optimizer_implementation"] == "fused"
        return (1.2 if fused else 1.0) * speed[int(config["num_workers"])]

    choices: dict[str, list[Value]] = {
        "num_workers": [own, *(each for each in speed if each != own)],
        "optimizer_implementation": ["default", "fused"],
    }
    search, arena, kept = a_search(together, choices, priorities={"num_workers": 0.9})
    arena.waits = lambda config: 0.33
    search.run(None)
    return [
        trial.config["num_workers"]
        for trial in kept.trials
        if trial.stage == "screen" and trial.config["optimizer_implementation"] == "fused"
    ]


def test_more_workers_are_tried_where_a_shorter_step_still_waits() -> None:
    assert 4 in screened_beside_fused(0, {0: 1.0, 1: 1.2, 2: 1.5, 4: 1.4})


def test_workers_that_were_taken_away_are_not_tried_again_though_making_a_batch_is_a_wait() -> None:
    assert set(screened_beside_fused(4, {4: 1.0, 0: 1.4, 1: 1.1, 2: 1.2})) == {0}

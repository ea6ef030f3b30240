"""Values of which nothing is expected wait until all others were looked at."""

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

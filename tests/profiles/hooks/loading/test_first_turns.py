from advisor.profiles.hooks.loading.first_turns import FirstTurns


def deliver(turns: FirstTurns, works_ns: list[int], waits_ns: list[int]) -> None:
    """One epoch that waits so long for each batch, and works so long on it."""
    turns.begin()
    now, waited, opening = 1000, 0, True
    for number, (work, wait) in enumerate(zip(works_ns, waits_ns, strict=True), start=1):
        now += wait
        waited += wait
        if opening:
            opening = not turns.deliver(now, wait, number, waited)
        now += work
    turns.end(now, len(works_ns), waited)


def test_the_first_step_is_compared_with_the_mean_of_the_later_ones() -> None:
    turns = FirstTurns()
    deliver(turns, works_ns=[90, 20, 30, 40], waits_ns=[500, 7, 0, 60])
    assert turns.excess_ns == [60]


def test_epochs_of_one_batch_or_two_say_nothing() -> None:
    turns = FirstTurns()
    deliver(turns, works_ns=[90], waits_ns=[1])
    deliver(turns, works_ns=[90, 20], waits_ns=[1, 1])
    assert turns.excess_ns == []


def test_an_epoch_that_was_left_early_says_nothing() -> None:
    turns = FirstTurns()
    turns.begin()
    assert not turns.deliver(10, 1, 1, 1)
    assert turns.deliver(50, 1, 2, 2)
    deliver(turns, works_ns=[30, 10, 10], waits_ns=[1, 1, 1])
    assert turns.excess_ns == [20]

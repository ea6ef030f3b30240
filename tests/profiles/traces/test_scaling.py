from builders import a_window, an_op

from advisor.profiles.traces.scaling import to_clean_steps


def test_times_are_brought_to_the_clean_step() -> None:
    window = a_window(
        an_op(self_ms=6.0), clean_step_ms=5.0, corrected_step_ms=10.0, residual=0.5, overhead=0.4
    )
    scaled = to_clean_steps(window)
    assert scaled.ops[0].self_ms == 3.0
    assert scaled.compute_ms == 3.0


def test_what_stays_unclear_is_a_quarter_of_the_overhead_at_most() -> None:
    window = a_window(clean_step_ms=5.0, corrected_step_ms=10.0, residual=0.5, overhead=0.4)
    assert to_clean_steps(window).residual == 0.1
    exact = a_window(clean_step_ms=5.0, corrected_step_ms=5.1, residual=0.02, overhead=0.4)
    assert to_clean_steps(exact).residual == 0.02


def test_another_program_is_not_scaled_beyond_reason() -> None:
    window = a_window(an_op(self_ms=1.0), clean_step_ms=100.0, corrected_step_ms=1.0, overhead=0.1)
    assert to_clean_steps(window).ops[0].self_ms == 4.0


def test_without_a_clean_step_nothing_is_scaled() -> None:
    window = a_window(an_op(), clean_step_ms=None, overhead=None, corrected_step_ms=10.0)
    assert to_clean_steps(window) is window

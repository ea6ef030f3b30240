from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from advisor.profiles.hooks.step.purpose import in_turns, judges, names_it

LOOP = """
for step in range(9):
    if step % 4 == 0 and step:
        look()
        print("%d" % step)
    else:
        play()
    if "%d" % step == "3":
        play()
"""


@pytest.mark.parametrize(("line", "said"), [(4, True), (5, True), (7, False), (9, False), (2, False)])
def test_what_runs_by_the_remainder_of_a_count_runs_in_turns(line: int, said: bool) -> None:
    assert in_turns(LOOP, line) is said


def test_what_is_no_program_runs_in_no_turns() -> None:
    assert not in_turns("for (;;)", 1)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("out = model(x_test)", True), ("val_loss = f(\n    model(x), y)", True),
        ("return self.val_set", True),
        ("X_val = model(x)", True), ("out = model(images_test)", True), ("f(valid_loader)", True),
        ("state_val = self.critic(state)", False), ("next_q_vals = target(x)", False),
        ("scores = reward(x)", False), ("q = model(x[valid_mask])", False),
        ("next_value = critic(x)", False), ("target = model(batch.next_states)", False),
        ("for x in test_set: play(x)", False), ("(", False),
    ],
)  # fmt: skip
def test_a_line_that_names_what_it_works_with_so_tells_it(statement: str, said: bool) -> None:
    line = 1 + statement.count("\n")
    assert names_it(f"{statement}\n", line) is said


def frame_of(folder: Path, name: str, text: str) -> FrameType:
    """Of a function of that name in a file, which stands still at its ``yield``; nobody called it."""
    file = folder / "program.py"
    file.write_text(text)
    names: dict[str, object] = {"__name__": "program"}
    exec(compile(text, str(file), "exec"), names)
    running = names[name]()  # type: ignore[operator]
    assert isinstance(running, Iterator)
    next(running)
    frame = running.gi_frame  # type: ignore[attr-defined]
    assert isinstance(frame, FrameType)
    return frame


@pytest.mark.parametrize(
    "name", ["evaluate", "val_epoch", "run_validation", "testEpoch", "visualize", "k_eval"]
)
def test_names_tell_an_evaluation(tmp_path: Path, name: str) -> None:
    assert judges(frame_of(tmp_path, name, f"def {name}():\n    yield\n"))


@pytest.mark.parametrize(
    "name", ["play", "rollout", "interval", "latest", "retrieval", "contest", "get_value", "act_and_values"]
)
def test_other_names_tell_none(tmp_path: Path, name: str) -> None:
    assert not judges(frame_of(tmp_path, name, f"def {name}():\n    yield\n"))


def test_a_line_of_the_program_is_read(tmp_path: Path) -> None:
    text = "def main():\n    for step in range(9):\n        if step % 20 == 0:\n            yield\n"
    assert judges(frame_of(tmp_path, "main", text))
    assert not judges(frame_of(tmp_path, "main", text.replace("step % 20 == 0", "step == 0")))

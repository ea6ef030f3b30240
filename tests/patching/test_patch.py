"""The file of changes: instructions as comments, harmless to git and to a shell."""

import subprocess
from pathlib import Path

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from result_builder import a_hostile_result, a_keep, a_recommendation, a_result

from advisor.patching import applying
from advisor.patching.patch import changes_patch
from advisor.result.document import Proposal, ResultData


def test_each_change_is_a_block_of_knob_values_code_and_environment() -> None:
    assert changes_patch(a_result()) == (
        "# 2 changes for train.py, to be made by hand.\n"
        "#\n"
        "# knob: num_workers\n"
        "# from: 0\n"
        "# to: 2\n"
        "# code:\n"
        "#     DataLoader(..., num_workers=2)\n"
        "#\n"
        "# knob: amp\n"
        "# from: off\n"
        "# to: bf16\n"
        "# code:\n"
        "#     with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "#         loss = criterion(model(x), y)\n"
        "# environment:\n"
        "#     export ONEDNN_DEFAULT_FPMATH_MODE=BF16\n"
    )


def test_keep_says_in_one_line_that_there_is_nothing_to_change() -> None:
    assert changes_patch(a_keep()) == "# Nothing to change: keep what you have.\n"


def test_one_change_is_singular() -> None:
    found = a_recommendation(changes=a_recommendation().changes[:1])
    assert changes_patch(a_result(recommendation=found)).startswith("# 1 change for train.py")


def test_hostile_names_cannot_leave_their_comment() -> None:
    lines = changes_patch(a_hostile_result()).splitlines()
    assert all(line.startswith("#") for line in lines)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066" for line in lines for c in line)


def test_git_and_a_shell_do_nothing_with_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / "train.py").write_text("print(1)\n")
    patch = tmp_path / "changes.patch"
    patch.write_text(changes_patch(a_hostile_result()), encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    git = subprocess.run(["git", "apply", "--allow-empty", patch.name], cwd=tmp_path, capture_output=True)
    shell = subprocess.run(["sh", patch.name], cwd=tmp_path, capture_output=True)
    assert (git.returncode, shell.returncode, shell.stdout) == (0, 0, b"")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_target_that_is_here_and_unchanged_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    result = a_result_for(
        Path("train.py"), a_change("num_workers", 0, 2), a_change("gc_freeze", "off", "freeze")
    )
    text = changes_patch(result)
    assert text.startswith(
        "# 2 changes for train.py: 1 edited below, 1 to be made by hand.\n"
        "# edited: num_workers 0 -> 2\n"
        "#\n"
        "# knob: gc_freeze\n"
        "# from: off\n"
        "# to: freeze\n"
        "# why not edited: advisor has no safe edit for it\n"
        "# code:\n"
    )
    assert "\n#\n--- a/train.py\n+++ b/train.py\n" in text
    (tmp_path / "train.py").write_text(PROGRAM + "\n")
    assert changes_patch(result).startswith(
        "# 2 changes for train.py, to be made by hand.\n#\n# knob: num_workers\n"
    )


def test_an_edit_that_fails_costs_the_report_no_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(result: object) -> None:
        raise TypeError("a fault of an edit")

    monkeypatch.setattr(applying, "make_patch", broken)
    text = changes_patch(a_result())
    assert text.startswith("# 2 changes for train.py, to be made by hand.\n")
    assert text.count("# why not edited: advisor failed at it (TypeError)\n") == 2


def beside_one_process(result: ResultData) -> ResultData:
    config = {**result.baseline.config, "strategy": "single", "ranks": 1}
    return result.model_copy(update={"baseline": result.baseline.model_copy(update={"config": config})})


DDP = Proposal(knob="strategy", to="ddp", reason="an estimate of the throughput of 2 ranks")


@pytest.mark.parametrize("verdict", ["keep", "change"])
def test_what_is_only_proposed_is_a_diff_in_comments(
    verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.replace(", shuffle=True", ""))
    changes = [a_change("num_workers", 0, 2)] if verdict == "change" else []
    found = {"verdict": verdict, "proposals": [DDP]}
    text = changes_patch(beside_one_process(a_result_for(file, *changes, recommendation=found)))
    own, head, shown = text.partition("#\n# proposed, not recommended: strategy -> ddp\n")
    assert own.startswith("# Nothing" if verdict == "keep" else "# 1 change for train.py") and head
    assert "# +torch.distributed.init_process_group()\n" in shown
    assert "# +model = torch.nn.parallel.DistributedDataParallel(model)\n" in shown
    assert all(line.startswith("#") for line in shown.splitlines())


def test_a_proposal_that_cannot_be_written_safely_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)  # it shuffles, and has no epochs in which to deal samples out anew
    found = {"verdict": "keep", "proposals": [DDP]}
    result = beside_one_process(a_result_for(file, recommendation=found))
    assert changes_patch(result) == "# Nothing to change: keep what you have.\n"
    file.write_text("print(1)\n")  # nor is it what was measured
    assert changes_patch(result) == "# Nothing to change: keep what you have.\n"


def test_a_proposal_of_an_unknown_present_setting_adds_nothing() -> None:
    result = a_keep().model_copy(deep=True)
    result.recommendation.proposals = [DDP]
    assert "strategy" not in result.baseline.config
    assert changes_patch(result) == "# Nothing to change: keep what you have.\n"


def test_a_proposal_whose_edit_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*of: object) -> None:
        raise TypeError("a fault of an edit")

    monkeypatch.setattr(applying, "proposed_patch", broken)
    result = a_keep().model_copy(deep=True)
    result.recommendation.proposals = [DDP]
    assert changes_patch(result).endswith("# proposed for strategy: advisor failed at it (TypeError)\n")


WHY = f"throughput only, {'as a larger batch changes what is learnt, ' * 5}with it goes the rule linear"
BATCH = Proposal(knob="batch_size", to=32, reason=WHY, beside={"lr_scaling": "linear"})


def beside_its_rate(file: Path, to: int = 32) -> ResultData:
    """A result that keeps what there is, and proposes another batch with its learning rate."""
    found = {"verdict": "keep", "proposals": [BATCH.model_copy(update={"to": to})]}
    result = a_result_for(file, recommendation=found)
    config = {"batch_size": 8, "lr_scaling": "none"}
    return result.model_copy(update={"baseline": result.baseline.model_copy(update={"config": config})})


def test_a_proposed_batch_comes_with_its_learning_rate_and_the_way_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    text = changes_patch(beside_its_rate(file))
    assert "# proposed, not recommended: batch_size -> 32, lr_scaling -> linear\n" in text
    assert f"# {WHY}\n" in text
    assert "# +loader = DataLoader(data, batch_size=32, shuffle=True)\n" in text
    assert "# +optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * 4)\n" in text
    assert "LinearLR(optimizer, 1 / 4, total_iters=" in text and "warmup.step()" in text
    assert all(line.startswith("#") for line in text.splitlines())
    smaller = changes_patch(beside_its_rate(file, to=4))
    assert "lr=0.1 * (4 / 8))" in smaller and "warmup" not in smaller


def test_a_proposed_batch_whose_rate_cannot_be_edited_is_not_half_of_a_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.replace(", lr=0.1", ""))
    assert changes_patch(beside_its_rate(file)) == "# Nothing to change: keep what you have.\n"

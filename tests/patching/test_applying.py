"""What of a recommendation becomes a patch, and what is left to the user and why."""

import os
import subprocess
from pathlib import Path

import pytest
from applied_builder import PROGRAM, a_change, a_result_for
from result_builder import a_keep, an_adopted

from advisor.base.errors import AdvisorError, UsageError
from advisor.patching.applying import MAX_BYTES, MOST_DEPTH, find_target, make_patch, unified

WORKERS = a_change("num_workers", 0, 2)
FUSED = a_change("optimizer_implementation", "default", "fused")
ALLOC = a_change("alloc_conf", "unset", "expandable_segments")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def refusal(*arguments: object, target: dict[str, object] | None = None) -> AdvisorError:
    with pytest.raises(AdvisorError) as raised:
        make_patch(a_result_for(Path("train.py"), WORKERS, **({"target": target} if target else {})))
    return raised.value


def test_what_can_be_edited_is_in_the_diff_and_the_rest_is_told() -> None:
    patch = make_patch(a_result_for(Path("train.py"), WORKERS, ALLOC, a_change("gc_freeze", "off", "freeze")))
    assert [each.knob for each in patch.edited] == ["num_workers"]
    assert patch.diff == (
        "--- a/train.py\n"
        "+++ b/train.py\n"
        "@@ -4,7 +4,7 @@\n"
        " \n"
        " torch.manual_seed(0)\n"
        " data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
        "-loader = DataLoader(data, batch_size=8, shuffle=True)\n"
        "+loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2)\n"
        " model = nn.Linear(4, 1)\n"
        " optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        " for x, y in loader:\n"
    )
    assert {each.knob: each.reason for each in patch.instructions} == {
        "alloc_conf": "it is set before the program starts",
        "gc_freeze": "advisor has no safe edit for it",
    }
    assert patch.environment == ALLOC.environment != {}


def test_git_applies_the_diff(here: Path) -> None:
    patch = make_patch(a_result_for(Path("train.py"), WORKERS, FUSED))
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    (here / "x.patch").write_bytes(f"# some words\n{patch.diff}".encode())
    subprocess.run(["git", "apply", "x.patch"], cwd=here, check=True)
    assert (here / "train.py").read_bytes() == patch.after


@pytest.mark.parametrize(
    "content",
    [
        PROGRAM.replace("\n", "\r\n").encode(),
        PROGRAM.rstrip("\n").encode(),
        ("# -*- coding: latin-1 -*-\n# caf\u00e9\n" + PROGRAM).encode("latin-1"),
        b"\xef\xbb\xbf" + PROGRAM.encode(),
        PROGRAM.replace("    ", "\t").encode(),
        PROGRAM.replace("for x", "\x0cfor x").encode(),
        (PROGRAM + "\n\n# end  \n   ").encode(),
    ],
    ids=[
        "carriage returns",
        "no last newline",
        "latin-1",
        "a mark of the byte order",
        "tabs",
        "a form feed",
        "spaces",
    ],
)
def test_all_but_what_is_edited_stays_byte_for_byte(here: Path, content: bytes) -> None:
    (here / "train.py").write_bytes(content)
    patch = make_patch(a_result_for(Path("train.py"), WORKERS))
    if patch.edited:
        assert patch.after == content.replace(b"shuffle=True", b"shuffle=True, num_workers=2")
    else:
        assert patch.after == content
        assert "forms that an edit would not keep" in patch.instructions[0].reason


def test_a_program_without_a_last_newline_gives_a_diff_that_git_takes(here: Path) -> None:
    before, after = b"a = 1\nb = 2", b"a = 1\nb = 3"
    diff = unified(before, after, "sub/x.py")
    assert diff.endswith("-b = 2\n\\ No newline at end of file\n+b = 3\n\\ No newline at end of file\n")
    (here / "sub").mkdir()
    (here / "sub" / "x.py").write_bytes(before)
    (here / "x.patch").write_text(diff)
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    subprocess.run(["git", "apply", "x.patch"], cwd=here, check=True)
    assert (here / "sub" / "x.py").read_bytes() == after


@pytest.mark.parametrize("name", ["a\nb.py", 'a"b.py', "a\x1bb.py"])
def test_a_name_that_could_end_its_line_gives_no_diff(name: str) -> None:
    assert unified(b"a\n", b"b\n", name) == ""


def test_a_change_of_two_knobs_is_made_whole_or_not_at_all(here: Path) -> None:
    batch, rate = a_change("batch_size", 8, 32), a_change("lr_scaling", "none", "linear")
    whole = make_patch(a_result_for(Path("train.py"), batch, rate))
    assert [each.knob for each in whole.edited] == ["batch_size", "lr_scaling"]
    assert b"lr=0.1 * 4" in whole.after and b"batch_size=32" in whole.after
    (here / "train.py").write_text(PROGRAM.replace(", lr=0.1", ""))
    part = make_patch(a_result_for(Path("train.py"), batch, rate, FUSED))
    assert [each.knob for each in part.edited] == ["optimizer_implementation"]
    assert {each.knob: each.reason for each in part.instructions} == {
        "batch_size": "it goes together with lr_scaling, which is not edited: "
        "the optimizer is made without an argument lr",
        "lr_scaling": "the optimizer is made without an argument lr",
    }


def test_a_batch_is_not_raised_without_the_accumulation_that_belongs_to_it() -> None:
    patch = make_patch(
        a_result_for(Path("train.py"), a_change("batch_size", 8, 32), a_change("accumulation", 1, 4))
    )
    assert patch.edited == []
    assert patch.instructions[0].reason.startswith("it goes together with accumulation, which is not edited")


def test_one_argument_that_cannot_be_edited_does_not_hold_up_the_others(here: Path) -> None:
    (here / "train.py").write_text(PROGRAM.replace("batch_size=8", "batch_size=len(data) // 8"))
    prefetch, batch = a_change("prefetch_factor", 2, 4), a_change("batch_size", 8, 32)
    patch = make_patch(a_result_for(Path("train.py"), WORKERS, prefetch, batch))
    assert [each.knob for each in patch.edited] == ["num_workers", "prefetch_factor"]
    (here / "train.py").write_text(PROGRAM.replace("batch_size=8", "num_workers=cpus(), batch_size=8"))
    patch = make_patch(a_result_for(Path("train.py"), WORKERS, prefetch, batch))
    assert [each.knob for each in patch.edited] == ["batch_size"]
    assert "goes together with num_workers" in patch.instructions[1].reason


def test_a_raised_rate_is_edited_and_its_warm_up_told() -> None:
    patch = make_patch(
        a_result_for(
            Path("train.py"), a_change("batch_size", 8, 32), a_change("lr_scaling", "none", "linear")
        )
    )
    assert [each.knob for each in patch.instructions] == ["lr_scaling"]
    assert patch.instructions[0].reason.startswith("edited; ")
    assert patch.instructions[0].snippet


@pytest.mark.parametrize(
    ("knob", "to"),
    [
        ("num_workers", "2) or print('x'"),
        ("matmul_precision", 'high"); print("x'),
        ("no_such_knob", 1),
        ("amp", "bf17"),
    ],
)
def test_values_that_are_not_of_the_knob_never_become_code(knob: str, to: str | int) -> None:
    change = an_adopted(knob=knob, before=0, to=to, semantics="exact", snippet="x")
    patch = make_patch(a_result_for(Path("train.py"), change))
    assert patch.after == patch.before
    assert "has no value" in patch.instructions[0].reason


def test_under_keep_there_is_nothing_to_do() -> None:
    patch = make_patch(a_keep())
    assert (patch.file, patch.edited, patch.instructions) == (None, [], [])


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"kind": "objects", "path": "notebook"}, "the program is a notebook or was given as objects"),
        ({"digest": "", "path": "package.train"}, "the program was run as a module"),
    ],
)
def test_without_a_file_everything_is_an_instruction(target: dict[str, object], reason: str) -> None:
    patch = make_patch(a_result_for(Path("train.py"), WORKERS, target=target))
    assert (patch.file, patch.diff) == (None, "")
    assert patch.instructions[0].reason.startswith(reason)


def test_a_program_that_changed_is_refused(here: Path) -> None:
    result = a_result_for(Path("train.py"), WORKERS)
    (here / "train.py").write_text(PROGRAM + "\n")
    with pytest.raises(
        UsageError, match=r"train.py changed since the study \(sha256:.{12}\): nothing written"
    ):
        make_patch(result)


def test_a_program_is_refused_when_what_it_imports_changed(here: Path) -> None:
    (here / "train.py").write_text("import mine\n" + PROGRAM)
    (here / "mine.py").write_text("A = 1\n")
    result = a_result_for(Path("train.py"), WORKERS)
    make_patch(result)
    (here / "mine.py").write_text("A = 2\n")
    with pytest.raises(UsageError, match="changed since the study"):
        make_patch(result)


@pytest.mark.parametrize("path", ["../train.py", "/etc/passwd", "sub/../../train.py", "away/train.py"])
def test_nothing_outside_of_the_project_is_read(here: Path, path: str) -> None:
    (here.parent / "train.py").write_text(PROGRAM)
    (here / "away").symlink_to(here.parent)
    error = refusal(target={"path": path})
    assert error.message == f"{path} lies outside the project: nothing written"
    assert error.exit_code == 2


def test_a_link_is_refused_though_it_stays_in_the_project(here: Path) -> None:
    (here / "link.py").symlink_to("train.py")
    error = refusal(target={"path": "link.py"})
    assert error.message == "link.py is a symbolic link: nothing written"
    assert "train.py" in (error.hint or "")


def test_links_that_go_round_and_long_names_are_told(here: Path) -> None:
    (here / "round.py").symlink_to("round.py")
    for name in ("round.py", "x" * 5000, "no.py", "", "a\0b"):
        with pytest.raises(UsageError):
            find_target(name)


def test_a_pipe_is_not_opened(here: Path) -> None:
    result = a_result_for(Path("train.py"), WORKERS)
    (here / "train.py").unlink()
    os.mkfifo(here / "train.py")
    with pytest.raises(UsageError, match="not a regular file"):
        make_patch(result)


def test_a_huge_program_is_not_read(here: Path) -> None:
    (here / "train.py").write_text("#" * (MAX_BYTES + 1))
    assert "too much for a script to edit" in refusal().message


@pytest.mark.parametrize("content", ["def (:\n", "\x00", "x = " + "(" * 5000 + ")" * 5000])
def test_a_program_that_cannot_be_parsed_gives_instructions(here: Path, content: str) -> None:
    (here / "train.py").write_text(content)
    patch = make_patch(a_result_for(Path("train.py"), WORKERS))
    assert patch.edited == []
    assert "cannot be parsed" in patch.instructions[0].reason


@pytest.mark.parametrize("count", [150, 400])
def test_a_deeply_nested_program_is_left_alone(here: Path, count: int) -> None:
    (here / "train.py").write_text(PROGRAM + "x = " + " + ".join(["1"] * count) + "\n")
    patch = make_patch(a_result_for(Path("train.py"), WORKERS))
    if count < MOST_DEPTH:
        assert len(patch.edited) == 1
    else:
        assert patch.instructions[0].reason == "the program is nested too deeply"

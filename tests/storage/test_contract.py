"""What makes trials comparable, and what a user reads when they no longer are."""

from pathlib import Path
from typing import Any

import pytest

from advisor.base.errors import UsageError
from advisor.profiles.facts.machine import Machine
from advisor.storage.contract import (
    Difference,
    StudyChanged,
    begun_space,
    check_study_name,
    default_study_name,
    differences,
    digest_of_target,
    digests_of_target,
    no_such_study,
    refuse_if_changed,
    study_contract,
)


def a_machine(**changes: Any) -> Machine:
    facts: dict[str, Any] = {
        "cpus_allowed": 2, "physical_cores": 2, "memory_bytes": 8 * 2**30, "shm_bytes": 2**30,
        "cpu_model": "EPYC", "platform": "Linux x86_64", "torch": "2.13.0",
    }  # fmt: skip
    return Machine(**{**facts, **changes})


def a_contract(**changes: Any) -> dict[str, Any]:
    terms: dict[str, Any] = {
        "objective": "goodput",
        "direction": "maximize",
        "space": {"num_workers": [0, 1, 2], "amp": ["off", "bf16"]},
        "target": "train.py",
        "files": {"train.py": "sha256:" + "a" * 64, "data.py": "sha256:" + "b" * 64},
        "machine": a_machine(),
        "advisor_version": "0.1.0",
        "args": ["--epochs", "1"],
        "fix": {"num_threads": 2},
    }
    return study_contract(**{**terms, **changes})


def test_a_contract_is_plain_json_of_everything_that_must_stay() -> None:
    assert a_contract() == {
        "objective": "goodput",
        "direction": "maximize",
        "space": [["num_workers", [0, 1, 2]], ["amp", ["off", "bf16"]]],
        "target": "train.py",
        "files": {"data.py": "sha256:" + "b" * 64, "train.py": "sha256:" + "a" * 64},
        "args": ["--epochs", "1"],
        "fix": {"num_threads": 2},
        "machine": "EPYC, Linux x86_64, 2 CPUs, 8 GiB, no GPU",
        "machine_fingerprint": a_machine().fingerprint,
        "torch": "2.13.0",
        "advisor": "0.1.0",
        "strategy": "single",
        "ranks": [1],
        "seed": 0,
    }


ASKED = {"--knob num_workers": "its own choices"}


@pytest.mark.parametrize(
    "space",
    [{"num_workers": [0, 2, 1], "amp": ["off"]}, {"num_workers": [0, 1], "pin_memory": ["off", "on"]}],
)
def test_what_is_worth_trying_may_change_where_it_is_known_what_was_asked_for(space: dict[str, Any]) -> None:
    refuse_if_changed("train", a_contract(asked=ASKED), a_contract(asked=ASKED, space=space))


def test_what_was_asked_for_and_the_own_settings_must_stay() -> None:
    now = a_contract(asked={"--max-batch": "64"}, space={"num_workers": [2, 0, 1], "amp": ["off", "bf16"]})
    assert differences(a_contract(asked=ASKED), now) == [
        Difference("knob num_workers", "0", "2"),
        Difference("option --max-batch", "absent", "64"),
        Difference("option --knob num_workers", "its own choices", "absent"),
    ]


def test_a_study_of_which_it_is_not_known_what_was_asked_for_needs_the_same_space() -> None:
    refuse_if_changed("train", a_contract(), a_contract(asked=ASKED))
    with pytest.raises(StudyChanged):
        refuse_if_changed("train", a_contract(), a_contract(asked=ASKED, space={"amp": ["off", "bf16"]}))


@pytest.mark.parametrize("stored", [None, 3, [["amp"]], [["amp", []]], [[1, ["off"]]], {"amp": ["off"]}])
def test_choices_that_cannot_be_read_are_none(stored: object) -> None:
    assert begun_space({"begun": stored}) is None


def test_choices_that_a_study_tried_are_read() -> None:
    assert begun_space({"begun": [["amp", ["off", "bf16"]]]}) == {"amp": ["off", "bf16"]}


def test_the_same_study_may_go_on() -> None:
    refuse_if_changed("train", a_contract(), a_contract())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"objective": "memory"}, [Difference("objective", "goodput", "memory")]),
        ({"direction": "minimize"}, [Difference("direction", "maximize", "minimize")]),
        (
            {"space": {"num_workers": [0, 2], "amp": ["off", "bf16"]}},
            [Difference("knob num_workers", "0, 1, 2", "0, 2")],
        ),
        (
            {"space": {"num_workers": [0, 1, 2], "pin_memory": ["off", "on"]}},
            [
                Difference("knob pin_memory", "absent", "off, on"),
                Difference("knob amp", "off, bf16", "absent"),
            ],
        ),
        (
            {"space": {"amp": ["off", "bf16"], "num_workers": [0, 1, 2]}},
            [Difference("order of knobs", "num_workers, amp", "amp, num_workers")],
        ),
        (
            {"files": {"train.py": "sha256:" + "c" * 64, "data.py": "sha256:" + "b" * 64}},
            [Difference("file train.py", "sha256:" + "a" * 12, "sha256:" + "c" * 12)],
        ),
        ({"args": []}, [Difference("args", "--epochs, 1", "none")]),
        ({"fix": {}}, [Difference("fix num_threads", "2", "absent")]),
        (
            {"machine": a_machine(cpus_allowed=4)},
            [Difference(
                "machine",
                "EPYC, Linux x86_64, 2 CPUs, 8 GiB, no GPU",
                "EPYC, Linux x86_64, 4 CPUs, 8 GiB, no GPU",
            )],
        ),
        ({"machine": a_machine(torch="2.14.0")}, [Difference("torch", "2.13.0", "2.14.0")]),
        ({"advisor_version": "0.2.0"}, [Difference("advisor", "0.1.0", "0.2.0")]),
        (
            {"strategy": "ddp", "ranks": [2]},
            [Difference("strategy", "single", "ddp"), Difference("ranks", "1", "2")],
        ),
        ({"seed": 1}, [Difference("seed", "0", "1")]),
    ],
)  # fmt: skip
def test_each_change_is_named_with_what_was_and_what_is(
    change: dict[str, Any], expected: list[Difference]
) -> None:
    assert differences(a_contract(), a_contract(**change)) == expected


def test_a_machine_that_only_its_fingerprint_tells_apart_is_another_machine() -> None:
    stored = {**a_contract(), "machine_fingerprint": "0" * 16}
    assert differences(stored, a_contract()) == [
        Difference("machine fingerprint", "0" * 16, a_machine().fingerprint)
    ]


def test_what_an_older_study_did_not_record_is_said() -> None:
    stored = a_contract()
    del stored["seed"]
    assert differences(stored, a_contract()) == [Difference("seed", "not recorded", "0")]


def test_a_changed_study_is_refused_with_all_differences_at_once() -> None:
    with pytest.raises(StudyChanged) as refused:
        refuse_if_changed("train", a_contract(), a_contract(objective="memory", seed=7))
    assert refused.value.message == (
        "study 'train' cannot be resumed: 2 things changed\n"
        "  what       stored   now\n"
        "  objective  goodput  memory\n"
        "  seed       0        7"
    )
    assert refused.value.hint == "start another one: `--study NAME`"
    assert refused.value.exit_code == 2
    assert [one.what for one in refused.value.differences] == ["objective", "seed"]


def test_hostile_text_in_a_difference_is_made_harmless() -> None:
    with pytest.raises(StudyChanged) as refused:
        refuse_if_changed("train", a_contract(), a_contract(args=["\x1b[2J\n\u202e" + "x" * 5000]))
    last = refused.value.message.splitlines()[-1]
    assert last.isprintable() and len(last) < 100


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / next(iter(files))


PROJECT = {
    "train.py": "import torch\nimport data\nfrom net import blocks, tail\nfrom net.sub.deep import f\n",
    "data.py": "import os\n",
    "net/__init__.py": "from .head import Head\n",
    "net/head.py": "class Head: pass\n",
    "net/blocks.py": "from ..outside import x\n",
    "net/tail.py": "def broken(:\n",
    "net/sub/__init__.py": "",
    "net/sub/deep.py": "from . import near\n",
    "net/sub/near.py": "",
    "unused.py": "",
}


def test_a_target_brings_the_project_files_that_it_imports(tmp_path: Path) -> None:
    assert list(digests_of_target(write(tmp_path, PROJECT))) == [
        "data.py", "net/__init__.py", "net/blocks.py", "net/head.py", "net/sub/__init__.py",
        "net/sub/deep.py", "net/sub/near.py", "net/tail.py", "train.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("edited", "changes"), [("train.py", True), ("net/sub/near.py", True), ("unused.py", False)]
)
def test_the_digest_follows_what_is_imported_and_nothing_else(
    tmp_path: Path, edited: str, changes: bool
) -> None:
    target = write(tmp_path, PROJECT)
    before = digest_of_target(target)
    (tmp_path / edited).write_text((tmp_path / edited).read_text() + "\nx = 1\n")
    assert (digest_of_target(target) != before) is changes
    assert before.startswith("sha256:") and len(before) == len("sha256:") + 64


def test_files_outside_the_project_are_not_read(tmp_path: Path) -> None:
    target = write(tmp_path / "project", {"train.py": "import secret\n"})
    write(tmp_path, {"elsewhere.py": ""})
    (tmp_path / "project" / "secret.py").symlink_to(tmp_path / "elsewhere.py")
    assert list(digests_of_target(target)) == ["train.py"]


@pytest.mark.parametrize("name", ["train", "a.b_c-1", "x" * 200])
def test_plain_study_names_are_taken(name: str) -> None:
    assert check_study_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "x" * 201, "a\0b", "a/b", "..", "a..b", ".", "\udcff", "'; DROP TABLE studies; --", "\U0001f600",
     "\u202egpj.exe", "a b", "a\n", "é"],
)  # fmt: skip
def test_study_names_that_some_database_or_file_system_would_not_take_are_refused(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_study_name(name)
    assert "use letters, digits, . _ - (at most 200)" in refused.value.message
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("train.py", "train"),
        ("src/my train.py", "my-train"),
        ("./../train.py", "train"),
        ("package.module", "package.module"),
        ("a..b.py", "a.b"),
        ("\u202e.py", "study"),
        ("<script>", "script"),
        ("x" * 300 + ".py", "x" * 200),
    ],
)
def test_a_study_nobody_named_is_named_after_its_target(target: str, name: str) -> None:
    assert default_study_name(target) == check_study_name(name) == name


def test_an_unknown_study_comes_with_the_five_nearest_names() -> None:
    names = ["foo", "food", "fool", "foot", "boo", "zebra", "football"]
    error = no_such_study("fooo", names)
    assert error.message == "no study 'fooo'"
    assert error.hint is not None and error.hint.endswith("`advisor studies` lists all")
    near = error.hint.removeprefix("nearest: ").partition(";")[0].split(", ")
    assert near[0] == "foo" and set(near) == {"foo", "food", "fool", "foot", "boo"}


def test_without_any_study_no_name_is_offered() -> None:
    assert no_such_study("x", []).hint == "`advisor studies` lists all"

"""A whole run on several benches: the same answer in less time, also where nodes differ or are lost."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from replayed_benches import ReplayedEngine, ReplayedLine
from replayed_program import Effect, Program, where
from replaying import Replay, replayed

from advisor.report.files import render_html, render_markdown, render_text
from advisor.result import benches
from advisor.tuners.benches.engine import BenchLost, Node

pytestmark = pytest.mark.usefixtures("own_folder")

EFFECTS = [
    Effect(where(num_threads=2), step=0.8),
    Effect(where(num_threads=4), step=1.3),
    Effect(where(malloc="libc-tuned"), step=0.85),
    Effect(where(cpu_affinity="cores"), step=1.1),
]
STARTUP_S = 20.0


def program(seed: int, step_s: float = 0.05, startup_s: float = STARTUP_S) -> Program:
    return Program(EFFECTS, step_s=step_s, startup_s=startup_s, seed=seed)


def engine(folder: Path, benches: int, **lost_at: float) -> ReplayedEngine:
    """Further benches beside the tuner's own: b, c, d and so on."""
    names = "bcdefgh"[: benches - 1]
    programs = {name: program(100 + place) for place, name in enumerate(names)}
    return ReplayedEngine(programs, folder, lost_at)


def run(folder: Path, others: ReplayedEngine | None, seed: int = 0) -> Replay:
    return replayed(program(seed), folder, engine=others, budget_s=3600.0, keep_batch=True)


def changes(of: Replay) -> dict[str, object]:
    found = of.result.recommendation
    assert found.verdict == "change", found.reason
    return {change.knob: found.config[change.knob] for change in found.changes}


@pytest.mark.parametrize("benches", [2, 4])
def test_several_benches_find_the_same_in_less_time(benches: int, tmp_path: Path) -> None:
    alone = run(tmp_path, None)
    others = engine(tmp_path, benches)
    together = run(tmp_path, others)
    assert changes(together) == changes(alone) == {"num_threads": 2, "malloc": "libc-tuned"}
    assert together.launcher.now < 0.9 * alone.launcher.now
    assert all("RunRace" in line.asked for line in others.lines.values())
    numbers = [trial.number for trial in together.result.trials]
    assert numbers == sorted(set(numbers)), "each trial counts once"


def test_the_gain_that_is_told_before_the_search_is_one_that_nodes_may_not_add_by_themselves(
    tmp_path: Path,
) -> None:
    knobs: dict[str, list[int | str] | None] = {"num_threads": [1, 2]}
    told = {}
    for count in (1, 2):
        others = engine(tmp_path, 2) if count == 2 else None
        of = replayed(program(0), tmp_path, engine=others, budget_s=3600.0, keep_batch=True, knobs=knobs)
        (line,) = [line for line in of.said if "the budget tells" in line]
        told[count] = int(line.split("%")[0].split()[-1])
    assert told[1] <= 3 and told[2] >= 10


def test_a_live_knob_is_raced_on_another_node_in_the_process_that_runs_there(tmp_path: Path) -> None:
    others = engine(tmp_path, 2)
    knobs: dict[str, list[int | str] | None] = {"num_threads": [1, 2, 4]}
    replayed(program(0), tmp_path, engine=others, budget_s=3600.0, keep_batch=True, knobs=knobs)
    line = others.lines["b"]
    assert line.started[line.asked.index("RunRace")] == line.started[line.asked.index("Open")]


def test_the_same_run_on_the_same_benches_says_the_same_again(tmp_path: Path) -> None:
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        folder.mkdir()
    first, again = (run(folder, engine(folder, 3)) for folder in folders)
    assert first.said == again.said and first.launcher.now == again.launcher.now


def test_what_was_lost_with_a_bench_is_measured_by_another_one(tmp_path: Path) -> None:
    others = engine(tmp_path, 3, b=60.0)
    found = run(tmp_path, others)
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    assert "warning: the bench on b is left out: lost: its node is gone" in found.said
    failed = [trial for trial in found.result.trials if trial.state == "failed"]
    assert not failed, "the loss of a node says nothing of a configuration"


def test_a_node_on_which_no_bench_can_be_opened_is_listed_with_the_reason(tmp_path: Path) -> None:
    class Taken(ReplayedEngine):
        def open(self, node: Node, command: Sequence[str]) -> ReplayedLine:
            if node.name == "b":
                raise BenchLost("it did not start within 60 s: its CPUs and GPUs may be taken")
            return super().open(node, command)

    for count in (2, 3):
        (folder := tmp_path / str(count)).mkdir()
        whole = engine(folder, count)
        found = run(folder, Taken(whole.programs, folder))
        assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
        assert len(found.result.benches) == count
        used = {each.node: each.left_out for each in found.result.benches}
        assert "may be taken" in used["b"] and not used["a"]
        assert "Bench b: left out: it did not start within 60 s" in render_text(found.result, width=200)


def test_other_nodes_are_asked_for_once_this_one_is_free(tmp_path: Path) -> None:
    """The tuner that had this node had the others as well."""
    others = engine(tmp_path, 2)
    found = replayed(program(0), tmp_path, engine=others, taken_s=145.0, budget_s=3600.0, keep_batch=True)
    assert others.lines["b"].asked_at[0] >= 145.0
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}


def test_all_others_may_be_lost(tmp_path: Path) -> None:
    found = run(tmp_path, engine(tmp_path, 3, b=55.0, c=70.0))
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}


def test_a_like_node_that_is_slower_is_named_and_left_out(tmp_path: Path) -> None:
    others = engine(tmp_path, 3)
    others.programs = {"b": program(1, step_s=0.07), "c": program(2)}
    found = run(tmp_path, others)
    (told,) = [line for line in found.said if "left out" in line]
    assert "on b" in told and "times slower than here" in told
    assert "RunRace" not in others.lines["b"].asked and "RunRace" in others.lines["c"].asked


def test_a_node_of_another_kind_enters_no_ratio(tmp_path: Path) -> None:
    others = engine(tmp_path, 3)
    profile = program(1).profile
    more = replace(profile, machine=replace(profile.machine, memory_bytes=2 * profile.machine.memory_bytes))
    others.programs = {"b": replace(program(1), profile=more), "c": program(2)}
    found = run(tmp_path, others)
    (told,) = [line for line in found.said if "left out" in line]
    assert "the bench on b is left out: another kind of node" in told
    assert others.lines["b"].asked == ["Open"] and "RunRace" in others.lines["c"].asked
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}


def test_a_program_that_does_not_run_on_a_node_does_not_end_the_run(tmp_path: Path) -> None:
    others = engine(tmp_path, 2)
    others.programs = {"b": Program(steps=0, startup_s=STARTUP_S)}
    found = run(tmp_path, others)
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    assert any("on b is left out: the program does not run there" in line for line in found.said)
    own, other = benches.lines(found.result.benches)
    assert own.endswith("; all was measured here: no other node was used") and "left out" in other


def test_a_confirmation_takes_both_orders_on_every_node(tmp_path: Path) -> None:
    others = engine(tmp_path, 2)
    found = run(tmp_path, others)
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    speedup = found.result.recommendation.speedup
    assert speedup.instances == 4 and speedup.low < 1 / (0.8 * 0.85) < speedup.high
    assert others.lines["b"].asked.count("RunInstances") >= 1


def test_idle_benches_begin_with_pairs_beside_the_last_races(tmp_path: Path) -> None:
    others = engine(tmp_path, 7)
    found = run(tmp_path, others)
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    asked = [
        (at, what) for line in others.lines.values()
        for at, what in zip(line.asked_at, line.asked, strict=True)
    ]  # fmt: skip
    pairs = [at for at, what in asked if what == "RunInstances"]
    assert min(pairs) <= max(at for at, what in asked if what == "RunRace")
    speedup = found.result.recommendation.speedup
    assert speedup.instances >= 2 and speedup.low < 1 / (0.8 * 0.85) < speedup.high


def test_what_each_node_gives_is_no_more_where_nodes_differ(tmp_path: Path) -> None:
    """The change helps on one node and hurts on the other: neither is what it brings."""
    others = engine(tmp_path, 2)
    own = Program([Effect(where(num_threads=2), step=0.9)], step_s=0.05, startup_s=STARTUP_S)
    others.programs = {"b": Program([Effect(where(num_threads=2), step=1.2)], step_s=0.05, seed=5)}
    knobs: dict[str, list[int | str] | None] = {"num_threads": [1, 2]}
    alone = replayed(own, tmp_path, budget_s=3600.0, keep_batch=True, knobs=knobs)
    assert alone.result.recommendation.verdict == "change"
    together = replayed(own, tmp_path, engine=others, budget_s=3600.0, keep_batch=True, knobs=knobs)
    assert together.result.recommendation.verdict == "keep"


def test_pairs_that_were_lost_with_a_node_are_measured_again_and_count_once(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    first = engine(tmp_path / "whole", 2)
    whole = run(tmp_path, first)
    line = first.lines["b"]
    pairs_at = [at for at, what in zip(line.asked_at, line.asked, strict=True) if what == "RunInstances"]
    (tmp_path / "cut").mkdir()
    others = engine(tmp_path / "cut", 2, b=pairs_at[-1] + 1.0)
    found = run(tmp_path, others)
    assert changes(found) == changes(whole)
    assert any("on b is left out: lost" in line for line in found.said)
    assert found.result.recommendation.speedup.instances == 4


def test_numbers_are_compared_on_another_node_beside_the_search(tmp_path: Path) -> None:
    others = engine(tmp_path, 3)
    found = run(tmp_path, others)
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    line = others.lines["c"]
    assert "RunLearning" in line.asked and "RunLearning" not in others.lines["b"].asked
    first = line.asked_at[line.asked.index("RunLearning")]
    reduced = next(when for when, said in said_at(found) if said.startswith("taking "))
    assert first < reduced, "what they are held against does not depend on the nominee"
    assert found.result.recommendation.numerics == "identical"


def test_numbers_of_the_program_as_it_is_are_there_before_anything_is_found_where_benches_are_many(
    tmp_path: Path,
) -> None:
    line = run_of(tmp_path, 5).lines["e"]
    asked = [what for what in line.asked if what.startswith("Run")]
    assert asked[0] == "RunLearning"


def test_what_was_found_is_confirmed_before_the_rest_is_tried_where_benches_are_several(
    tmp_path: Path,
) -> None:
    found = run(tmp_path, engine(tmp_path, 4))
    told = [said for _, said in said_at(found)]
    confirmed = next(place for place, said in enumerate(told) if said.startswith("confirmed: "))
    assert any(said.startswith("trial ") for said in told[confirmed:])
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}


def test_what_takes_a_moment_is_looked_at_before_what_was_found_is_confirmed(tmp_path: Path) -> None:
    """A second confirmation takes starts; looks in one process take none."""
    effects = [Effect(where(num_threads=2), step=0.8), Effect(where(gc_freeze="freeze"), step=0.85)]
    own = Program(effects, step_s=0.05, startup_s=STARTUP_S)
    others = engine(tmp_path, 4)
    others.programs = {name: replace(own, seed=place) for place, name in enumerate(others.programs)}
    knobs: dict[str, list[int | str] | None] = {"num_threads": [1, 2], "gc_freeze": ["off", "freeze"]}
    found = replayed(own, tmp_path, engine=others, budget_s=3600.0, keep_batch=True, knobs=knobs)
    assert changes(found) == {"num_threads": 2, "gc_freeze": "freeze"}
    assert sum(said.startswith("confirmed: ") for said in found.said) == 1


def test_numbers_are_compared_here_anew_where_that_node_is_lost(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    line = run_of(tmp_path / "whole", 3).lines["c"]
    last = max(at for at, asked in zip(line.asked_at, line.asked, strict=True) if asked == "RunLearning")
    (tmp_path / "cut").mkdir()
    found = run(tmp_path / "cut", engine(tmp_path / "cut", 3, c=last + 1.0))
    assert changes(found) == {"num_threads": 2, "malloc": "libc-tuned"}
    assert "warning: the bench on c is left out: lost: its node is gone" in found.said
    assert found.result.recommendation.numerics == "identical"


def run_of(folder: Path, benches: int) -> ReplayedEngine:
    """A run on so many benches; its engine."""
    others = engine(folder, benches)
    run(folder, others)
    return others


def said_at(of: Replay) -> list[tuple[float, str]]:
    """What was told, with the seconds."""
    return [(at, said) for (at, _), said in zip(of.when, of.said, strict=True)]


def test_the_result_says_what_each_node_did_and_which_was_left_out(tmp_path: Path) -> None:
    others = engine(tmp_path, 3)
    others.programs = {"b": program(1), "c": program(2, step_s=0.08)}
    result = run(tmp_path, others).result
    own, used, slower = result.benches
    assert [each.node for each in result.benches] == ["a", "b", "c"]
    assert own.here and own.measured and not used.here and not used.left_out
    measured = sum(each.startswith("Run") for each in others.lines["b"].asked)
    assert used.measured == measured and used.busy_seconds > STARTUP_S
    assert own.fingerprint == used.fingerprint and own.group == used.group != ""
    assert "times slower" in slower.left_out and slower.measured == 0
    told = "\n".join(benches.lines(result.benches))
    assert "Bench c: " in told and told.count("left out") == 1
    assert "Bench b: " in render_text(result, 100) and "Bench b" in render_markdown(result)
    assert "Bench b" in render_html(result)
    alone = run(tmp_path, None).result
    assert alone.benches == [] and "Bench " not in render_text(alone, 100)

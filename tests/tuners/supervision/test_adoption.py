"""What a killed supervisor leaves is found in whatever order the kernel hands it on."""

import pytest

from advisor.tuners.supervision import adoption

WARM, ABOVE, SUPERVISOR, TRIAL, CHILD = 100, 99, 101, 102, 103
LOOKS = {  # each look: the children of the process above, who is dead, who is dying
    "all at once": [({WARM, CHILD}, {TRIAL}, set())],
    "the killed supervisor still holds the trial": [
        ({WARM}, set(), {SUPERVISOR}),
        ({WARM, TRIAL}, {SUPERVISOR}, set()),
    ],
    "the trial dies between the two questions": [
        ({WARM, TRIAL}, {SUPERVISOR, TRIAL}, set()),
        ({WARM, TRIAL, CHILD}, {SUPERVISOR, TRIAL}, set()),
    ],
    "the supervisor dies between the two questions": [
        ({WARM}, {SUPERVISOR}, set()),
        ({WARM, TRIAL}, {SUPERVISOR, TRIAL}, set()),
        ({WARM, TRIAL, CHILD}, {SUPERVISOR, TRIAL}, set()),
    ],
}


@pytest.mark.parametrize("looks", LOOKS.values(), ids=LOOKS)
def test_nothing_is_left_of_a_killed_supervisor(
    looks: list[tuple[set[int], set[int], set[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(looks)
    now: list[tuple[set[int], set[int], set[int]]] = []
    killed: set[int] = set()

    def children(pid: int) -> list[int]:
        assert pid == ABOVE
        now[:] = [next(moments, now[0] if now else looks[-1])]
        return sorted(now[0][0])

    def kill_tree(*pids: int, **_: object) -> int:
        killed.update(pids)
        return 0

    monkeypatch.setattr(adoption, "children", children)
    monkeypatch.setattr(adoption, "kill_tree", kill_tree)
    monkeypatch.setattr(adoption, "living_since", lambda pid: None if pid in now[0][1] | killed else 1)
    monkeypatch.setattr(adoption, "descendants", lambda pid: [SUPERVISOR, TRIAL])
    monkeypatch.setattr(adoption, "is_exiting", lambda pid: pid in now[0][2])
    assert adoption.end_strangers(ABOVE, WARM) == 0
    assert killed == looks[-1][0] - {WARM} - looks[-1][1]

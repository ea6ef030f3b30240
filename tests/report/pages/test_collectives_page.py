"""Exchanges between ranks, in every face of a report."""

from profile_builder import an_empty_profile

from advisor.report.digest import profile_markdown
from advisor.report.files import render_html
from advisor.report.pages.collectives_page import HEAD, collective_lines, collective_rows
from advisor.report.profile_text import render_profile
from advisor.result.document import ProfileSummary
from advisor.result.on_device import Collective

TOLD = Collective(kind="all_reduce", calls=2, ms=6.0, bytes=4 * 2**20, ranks=8, wait_ms=1.5,
                  bus_gb_per_s=120.0, of_link=0.4, overlapped=0.25)  # fmt: skip
BARE = Collective(kind="send_recv", calls=7, ms=3.0)
SUMMARY = ProfileSummary(phases_ms={}, collectives=[TOLD, BARE])


def test_each_kind_and_size_is_a_row_and_a_line() -> None:
    first, second = collective_rows(SUMMARY)
    assert first == ("all reduce", "4.0 MiB", "8", "2", "6.00 ms", "1.50 ms", "120 GB/s", "40 %", "25 %")
    assert second == ("send recv", "", "", "7", "3.00 ms", "", "", "", "0 %")
    assert len(HEAD) == len(first)
    assert collective_lines(SUMMARY) == [
        "Exchanges of one step:",
        "  all reduce: 2 of 4.0 MiB, among 8 ranks, 6.00 ms, 25 % of it overlapped, 1.50 ms waiting for the "
        "last rank, bus at 120 GB/s, 40 % of the links",
        "  send recv: 7 calls, 3.00 ms, 0 % of it overlapped",
    ]
    assert collective_lines(ProfileSummary(phases_ms={})) == []


def test_every_face_shows_them() -> None:
    result = an_empty_profile(profile=SUMMARY)
    html = render_html(result)
    assert '<h2 id="exchanges">' in html and "120 GB/s" in html
    assert "bus at 120 GB/s" in render_profile(result, 200)
    assert "### Exchanges between ranks" in profile_markdown(result)
    assert "exchanges" not in render_html(an_empty_profile())


def test_of_buckets_those_that_are_hidden_are_told_from_those_that_are_not() -> None:
    buckets = TOLD.model_copy(
        update={"calls": 4, "overlapped": 0.5, "overlapped_in_turn": [1.0, 1.0, 1.0, 0.03]}
    )
    alike = TOLD.model_copy(update={"overlapped_in_turn": [0.25, 0.25]})
    rows = collective_rows(ProfileSummary(phases_ms={}, collectives=[buckets, alike]))
    assert [row[-1] for row in rows] == ["50 % (in turn 3 x 100 %, 3.0 %)", "25 %"]

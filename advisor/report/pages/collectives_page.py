"""Exchanges between ranks by kind and size, for every face of a report."""

from itertools import groupby

from advisor.result import wording
from advisor.result.document import ProfileSummary
from advisor.result.on_device import Collective
from advisor.result.wording import shown

HEAD = ("exchange", "bytes", "ranks", "calls", "time", "of it waiting", "bus", "of the links", "overlapped")
MOST = 12  # rows
MOST_PARTS = 8  # of the turns of a step

Row = tuple[str, ...]


def collective_rows(summary: ProfileSummary) -> list[Row]:
    """One row for each kind and size under ``HEAD``, the longest time first; what is not known is empty."""
    return [_row(each) for each in summary.collectives[:MOST]]


def collective_lines(summary: ProfileSummary) -> list[str]:
    """The same for a terminal."""
    rows = collective_rows(summary)
    lines = ["Exchanges of one step:"] if rows else []
    for kind, size, ranks, calls, time, waiting, bus, share, overlapped in rows:
        told = [
            f"{calls} of {size}" if size else f"{calls} calls",
            f"among {ranks} ranks" if ranks else "",
            f"{time}, {overlapped} of it overlapped",
            f"{waiting} waiting for the last rank" if waiting else "",
            f"bus at {bus}" if bus else "",
            f"{share} of the links" if share else "",
        ]
        lines.append(f"  {kind}: {', '.join(filter(None, told))}")
    return lines


def _row(each: Collective) -> Row:
    return (
        shown(each.kind, 40).replace("_", " "),
        "" if each.bytes is None else wording.mib(each.bytes),
        "" if each.ranks is None else str(each.ranks),
        f"{each.calls:.1f}".removesuffix(".0"),
        f"{wording.plain(each.ms)} ms",
        "" if each.wait_ms is None else f"{wording.plain(each.wait_ms)} ms",
        "" if each.bus_gb_per_s is None else f"{wording.plain(each.bus_gb_per_s)} GB/s",
        "" if each.of_link is None else wording.share_of(each.of_link, 1.0),
        _overlap(each),
    )


def _overlap(each: Collective) -> str:
    """The share that is overlapped, and in which turns of a step it is another."""
    whole = wording.share_of(each.overlapped, 1.0)
    turns = [wording.share_of(share, 1.0) for share in each.overlapped_in_turn]
    parts = [(share, len(list(equal))) for share, equal in groupby(turns)]
    if len(parts) < 2:
        return whole
    told = ", ".join(f"{number} x {share}" if number > 1 else share for share, number in parts[:MOST_PARTS])
    return f"{whole} (in turn {told}{', ...' if len(parts) > MOST_PARTS else ''})"

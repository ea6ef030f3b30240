"""Networks by name or from a file: how many bytes a second a node sends."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from advisor.base.errors import UsageError, clean
from advisor.planning.points_file import positive, read_rows

KINDS = {
    "ethernet": 10e9 / 8,  # 10GBASE-T, what a node has at least
    "ib": 200e9 / 8,  # InfiniBand HDR, one card
    "nvlink": 450e9,  # of one GPU into an NVLink switch that spans nodes (NVLink 4, either way)
}
"""Bytes a second of one card, by what it is called."""
NAMED = re.compile(rf"(?:(\d+)x)?(?:(\d+(?:\.\d+)?)(Gb|GB)(?:/?p?s)?|({'|'.join(KINDS)}))", re.IGNORECASE)
HINT = (
    "a node's cards and their speed in Gbit/s, as in 100Gb or 8x400Gb; ib, ethernet or nvlink, as in 4xib; "
    "a file with columns bytes,busbw_GBps; or measured"
)
COLUMNS = ("bytes", "busbw_GBps")


@dataclass(frozen=True)
class Network:
    """What one node sends, by the size of a message.

    Attributes:
        speeds: Bytes of a message and bytes a second, by rising bytes; at least one.
    """

    speeds: tuple[tuple[float, float], ...]

    def bytes_per_s(self, size: float) -> float:
        """For messages of one size; between two measured ones on a straight line of logarithms."""
        if size <= self.speeds[0][0]:
            return self.speeds[0][1]
        for (small, slow), (large, fast) in zip(self.speeds, self.speeds[1:], strict=False):
            if size <= large:
                part = math.log(size / small) / math.log(large / small)
                return math.exp((1 - part) * math.log(slow) + part * math.log(fast))
        return self.speeds[-1][1]


def network_of(written: str) -> Network | None:
    """A network as people write it; nothing for ``measured``, where the points alone tell.

    Raises:
        UsageError: It is no name, and no file of bus bandwidths.
    """
    if written == "measured":
        return None
    found = NAMED.fullmatch(written.strip())
    if found is not None and found[4]:
        return Network(((1.0, int(found[1] or 1) * KINDS[found[4].lower()]),))
    if found is not None and float(found[2]) > 0:
        per_byte = 1 if found[3] == "GB" else 8
        return Network(((1.0, int(found[1] or 1) * float(found[2]) * 1e9 / per_byte),))
    if found is None and Path(written).is_file():
        return _of_file(Path(written))
    raise UsageError(f"{clean(written)} names no network", hint=HINT)


def _of_file(path: Path) -> Network:
    """Bus bandwidths as nccl-tests tell them (PERFORMANCE.md); of several of one size the median."""
    found: dict[float, list[float]] = {}
    for where, cells in read_rows(path, COLUMNS):
        speed = positive(where, cells, "busbw_GBps") * 1e9
        found.setdefault(positive(where, cells, "bytes"), []).append(speed)
    return Network(tuple((size, sorted(rows)[len(rows) // 2]) for size, rows in sorted(found.items())))

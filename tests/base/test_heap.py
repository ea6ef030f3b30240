import ctypes
import subprocess
import sys

import pytest

HOLES = """
from advisor.base.heap import map_large_blocks
if {mapped}:
    map_large_blocks()
large = bytearray(16 << 20)
del large  # glibc now takes blocks of up to this size from its heap
held = [(bytearray(2 << 20), bytearray(100_000)) for _ in range(100)]
held = [small for _, small in held]
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096 >> 20)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
def test_what_is_freed_between_small_blocks_leaves_the_process() -> None:
    resident_mb = {
        mapped: int(subprocess.check_output([sys.executable, "-c", HOLES.format(mapped=mapped)]))
        for mapped in (False, True)
    }
    assert resident_mb[True] < 100 < 180 < resident_mb[False]

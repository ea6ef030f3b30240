"""The heap of the C library, where columns of millions of rows are held for a moment."""

import ctypes

M_MMAP_THRESHOLD = -3  # malloc.h of glibc
BLOCK = 1 << 20  # bytes


def map_large_blocks() -> None:
    """Let each block of 1 MiB and more be mapped by itself, so that it leaves the process when it is freed.

    Of its own accord glibc keeps a heap for blocks up to the largest one freed (mallopt(3)); columns of one
    size freed between others then leave holes that nothing fills. With another C library nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, BLOCK)

"""Stands for a package whose runtime binds the process that imports it."""

import os

import numpy as np

ALLOWED = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(ALLOWED)})


def unbind() -> None:
    os.sched_setaffinity(0, ALLOWED)


def smooth(
    wave: "np.ndarray[tuple[int], np.dtype[np.float64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    for _ in range(6):
        wave = (np.roll(wave, 1) + 2 * wave + np.roll(wave, -1)) / 4
    return wave

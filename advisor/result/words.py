"""What the words that a result is written in mean, for every face."""

from advisor.tuners.supervision.failures import Cause

CAUSES: dict[Cause, str] = {
    "user_error": "the program raised an exception",
    "oom_device": "device memory ran out",
    "oom_host": "host memory ran out",
    "shm_full": "shared memory (/dev/shm) ran out",
    "disk_full": "the disk is full",
    "timeout": "a deadline passed",
    "hang_collective": "ranks waited for each other without end",
    "killed": "the process was killed",
    "crash_signal": "the process crashed",
    "device_error": "the device reported an error",
    "compile_failed": "compilation failed",
    "compile_fell_back": "compilation fell back to eager in silence, or never settled",
    "not_applied": "a change asked for did not take effect",
    "numerics_mismatch": "the numbers differ beyond the noise of the run",
    "non_finite": "a loss was NaN or infinite",
    "interference": "other load disturbed the measurement",
    "throttled": "the processor was throttled",
    "storage": "the storage failed",
    "environment": "the machine or its set-up did not allow it",
    "internal": "advisor itself failed",
}

SEMANTICS = {
    "exact": "the same numbers",
    "rounding": "sums in another order",
    "precision": "fewer bits",
    "training": "what is learnt can differ",
}

NUMERICS = {
    "identical": "identical numbers",
    "within_noise": "same numbers within noise",
    "drifts": "the numbers drift",
    "not_checked": "numbers not checked",
}

STOPPED = {
    "budget": "the time budget had no room to try and confirm more",
    "trials": "the number of trials was reached",
    "converged": "nothing was left to try",
    "failures": "too many trials failed",
    "interrupted": "the search was interrupted",
}

# What a ratio is a ratio of; larger is better in each, so those that shrink say so.
GAINS = {
    "throughput": "throughput",
    "goodput": "goodput",
    "memory": "less peak memory",
    "latency": "shorter latency",
    "requests": "requests per second",
    "energy": "less energy",
}

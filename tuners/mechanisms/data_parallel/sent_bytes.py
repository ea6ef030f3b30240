"""Bytes that one worker sends in a collective over ``size`` bytes, on average over the workers.

A ring all-reduce is a reduce-scatter followed by an all-gather, in each of which every worker passes on all
parts but one (Patarasuk and Yuan, 2009). NCCL uses rings, and gloo does unless told otherwise. In a broadcast
every other worker is sent the whole once, by whomever: over equal parts from each worker that is as much as
in an all-gather.
"""


def all_reduce(size: float, workers: int) -> float:
    """The sum of all workers' ``size`` bytes, on every one of them."""
    return reduce_scatter(size, workers) + all_gather(size, workers)


def all_gather(size: float, workers: int) -> float:
    """All ``size`` bytes on every worker, of which each had its part; also broadcasts of all parts."""
    return (workers - 1) / workers * size


def reduce_scatter(size: float, workers: int, *, gloo: bool = False) -> float:
    """The sum of all workers' ``size`` bytes, of which each gets its part.

    Args:
        size: Bytes on each worker.
        workers: How many there are.
        gloo: By that backend, which makes an all-reduce of it and drops what is another worker's.
    """
    return all_reduce(size, workers) if gloo else (workers - 1) / workers * size

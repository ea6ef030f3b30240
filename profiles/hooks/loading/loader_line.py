"""All loaders that one line of the program made for the same purpose, seen as one."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from advisor.profiles.facts.profile import LoaderFacts
from advisor.profiles.hooks.loading.loader_probe import Probed
from advisor.profiles.hooks.loading.loader_record import LoaderRecord


class LoaderLine:
    """Loaders made one after the other, such as anew for each epoch, or a single one.

    Args:
        records: In the order of construction; not empty.
    """

    def __init__(self, records: Sequence[LoaderRecord]) -> None:
        self.records = records
        self.steps = sum(record.steps for record in records)
        self.batches = sum(record.batches for record in records)

    @property
    def main(self) -> LoaderRecord:
        """The one whose batches preceded the most steps; before any step, the most used one."""
        return max(self.records, key=lambda record: (record.steps, record.batches))

    @property
    def newest(self) -> LoaderRecord | None:
        """The last one used whose dataset is still there."""
        return next((record for record in reversed(self.records) if record.dataset is not None), None)

    @property
    def in_turn(self) -> list[LoaderRecord]:
        """The loaders that replaced each other in training; of several used side by side only the main one.

        One replaces another if it was constructed after that had served steps.
        """
        best: dict[int, LoaderRecord] = {}
        for record in self.records:
            known = best.get(record.steps_before)
            if record.steps and (known is None or record.steps > known.steps):
                best[record.steps_before] = record
        return list(best.values()) or [self.main]

    def samples_in_steps(self) -> int:
        """Samples that steps have used."""
        return sum(record.samples_in_steps for record in self.records)

    def facts(self, probed: Probed | None) -> LoaderFacts:
        """The main loader as the program constructed it, with the epochs of all.

        Args:
            probed: What making a batch costs, if that was looked at; what was timed while the program
                fetched its own batches is preferred.
        """
        records = self.in_turn
        timing = self.main.timing
        facts = self.main.facts(made_here=probed is not None and bool(probed.items_ms))
        items_ms = list(timing.items_ms)
        construct_ns = [record.construct_ns for record in records if record.construct_ns is not None]
        if probed is not None:
            items_ms += probed.items_ms
            facts = replace(
                facts,
                transport_ms=probed.transport_ms,
                item_read_bytes=probed.item_read_bytes,
                item_told_bytes=probed.item_told_bytes,
                network_filesystem=probed.network_filesystem,
                slow_line=probed.slow_line,
                items_change=probed.items_change,
                items_cached=probed.items_cached,
            )
            if probed.items_ms and not timing.enough:
                facts = replace(
                    facts, item_ms=probed.item_ms, collate_ms=probed.collate_ms, cpu_share=probed.cpu_share
                )
        return replace(
            facts,
            item_p99_ms=_p99(items_ms),
            epochs_started=sum(record.epochs for record in records),
            construct_ms=statistics.mean(construct_ns) / 1e6 if construct_ns else None,
            constructed=len(records),
            worker_start_ms=_start_ms(records),
            first_step_ms=_first_step_ms(records),
            epoch_wall_s=_epoch_wall_s(records),
            first_draw_ms=_first_draw_ms(records),
            fixed=next((record.fixed for record in self.records if record.fixed), facts.fixed),
            epoch_wait_ms=tuple(wait for record in records for wait in record.epoch_waits_ms),
        )


def _start_ms(records: Sequence[LoaderRecord]) -> float | None:
    """Mean time from asking for an epoch to its first batch, less a usual wait, and of ending its workers."""
    usual = [record.usual_wait_ns for record in records]
    known = [wait for wait in usual if wait is not None]
    started = sum(record.started for record in records)
    if not known or not started:
        return None
    start_ns = sum(record.start_ns for record in records) / started
    stop_ns = sum(record.stop_ns for record in records) / started
    return max(0.0, start_ns - statistics.mean(known) + stop_ns) / 1e6


def _first_step_ms(records: Sequence[LoaderRecord]) -> float | None:
    """Median over all epochs but the very first, in which a program warms up."""
    excess_ns = [each for record in records for each in record.first_turns.excess_ns][1:]
    return statistics.median(excess_ns) / 1e6 if excess_ns else None


def _epoch_wall_s(records: Sequence[LoaderRecord]) -> float | None:
    """Mean time from one epoch to the next; of a single epoch, to its end."""
    starts = sorted(start for record in records for start in record.epoch_starts_ns)
    if len(starts) > 1:
        return (starts[-1] - starts[0]) / (len(starts) - 1) / 1e9
    end = records[-1].epoch_end_ns
    return (end - starts[0]) / 1e9 if starts and end is not None else None


def _first_draw_ms(records: Sequence[LoaderRecord]) -> float | None:
    """Median of what a sampler takes for the first indices of an epoch."""
    spent_ns = [each for record in records for each in record.first_draws.spent_ns]
    return statistics.median(spent_ns) / 1e6 if spent_ns else None


def _p99(values: list[float]) -> float | None:
    """The slow end: the value that one in a hundred exceeds, the slowest of fewer."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))] if values else None

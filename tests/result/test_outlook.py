"""What a result means for the user's own training."""

from result_builder import a_ratio, a_result

from advisor.result import outlook
from advisor.result.document import BatchSizes, Interval, PlannedRun


def test_the_planned_run_is_told_as_it_is_and_changed() -> None:
    run = PlannedRun(
        steps=1000, epoch_s=10.0, seconds=100.0, cost=1.0, price_per_hour=36.0, changed_steps=1000,
        changed_epoch_s=Interval(estimate=5, low=4, high=6),
        changed_seconds=Interval(estimate=50, low=40, high=60), changed_cost=0.5,
    )  # fmt: skip
    assert outlook.planned(a_result(planned=run)) == (
        "an epoch takes 5.0 s (4.0 s to 6.0 s) instead of 10 s; "
        "1000 steps take 50 s (40 s to 60 s) instead of 100 s; at 36 an hour that costs 0.50 instead of 1.00"
    )
    assert outlook.planned(a_result()) is None


def test_other_batch_sizes_are_told_with_what_is_known_of_them() -> None:
    known = BatchSizes(
        present=32, fastest=128, fastest_ratio=a_ratio(2.0, 1.9, 2.1), best_goodput=64,
        noise_scale=Interval(estimate=300, low=200, high=450), largest_safe=512, said="a batch of 512 ran",
    )  # fmt: skip
    assert outlook.batches(a_result(batch=known)) == (
        "batch size 128 is the fastest measured: 2.00x (1.90 to 2.10); by goodput 64 is best "
        "(gradient noise scale 300 samples, 200 to 450); a batch of 512 ran"
    )
    hidden = BatchSizes(present=32, best_goodput=64, noise_scale_at_least=1234.4)
    assert outlook.batches(a_result(batch=hidden)) == (
        "by goodput 64 is best (gradient noise scale at least 1234 samples)"
    )
    alone = BatchSizes(present=32, noise_scale_at_least=1234.4)
    assert outlook.batches(a_result(batch=alone)) == "gradient noise scale at least 1234 samples"
    assert outlook.batches(a_result(batch=BatchSizes(present=32))) is None

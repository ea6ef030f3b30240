"""Results of tuning that a plan can be made from."""

from result_builder import a_ratio, a_trial, an_interval
from strategy_builder import a_result_of_strategies, some_strategy_trials, under

from advisor.result.document import RankUse, Rate, ResultData

EXPOSED = {"ddp": {"exposed_communication_ms": 7.5}, "fsdp": {}}


def a_result() -> ResultData:
    trials = some_strategy_trials()
    for number, (name, step) in enumerate((("ddp", 60.0), ("fsdp", 90.0)), len(trials)):
        rate = Rate(estimate=2 * 32 / step * 1e3, low=1, high=1e6, unit="samples/s")
        trials.append(
            a_trial(
                number, a_ratio(1.1, 1.0, 1.2), config=under(name, 2),
                ranks=RankUse(count=2, bytes_per_step=1e6, report=EXPOSED[name]),
                step_ms=an_interval(step), throughput=rate, peak_bytes=10**9,
            )
        )  # fmt: skip
    return a_result_of_strategies(trials=trials)


def with_memory() -> ResultData:
    result = a_result()
    sizes = {"parameter": 10**8, "gradient": 10**8, "optimizer": 2 * 10**8, "host_peak": 10**9}
    profile = result.profile.model_copy(update={"memory_bytes": sizes})
    return result.model_copy(update={"profile": profile})

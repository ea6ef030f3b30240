"""Times and memory of requests in words, before and after."""

from result_builder import a_result

from advisor.report.pages import latency_page
from advisor.result.latency import Latency

BEFORE = Latency(requests=2000, p50_ms=10.0, p90_ms=12.0, p99_ms=17.0, requests_per_s=90.0, cold_start_s=1.5)
AFTER = Latency(requests=900, p50_ms=5.0, p90_ms=6.0, requests_per_s=180.0, cold_start_s=2.0)


def test_the_memory_of_the_process_that_confirmed_a_change_is_told_beside_its_times() -> None:
    result = a_result()
    result.baseline.latency, result.recommendation.latency = BEFORE, AFTER
    (_, now), (when, changed) = latency_page.rows(result)
    assert now == "p50 10 ms, p90 12 ms, p99 17 ms (2,000 requests), first answer after 1.5 s"
    assert when == "changed" and changed.startswith("p50 5 ms, p90 6 ms (900 requests)")
    assert changed.endswith("first answer after 2.0 s, peak memory 970 MiB with what makes the change")


def test_without_a_change_nothing_is_said_of_one() -> None:
    result = a_result()
    result.baseline.latency, result.recommendation.latency = BEFORE, AFTER
    result.recommendation.verdict = "keep"
    assert [when for when, _ in latency_page.rows(result)] == ["now"]
    result.baseline.latency = None
    assert latency_page.rows(result) == []

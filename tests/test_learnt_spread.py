"""What a confirmation expects of processes is what the recorded series show."""

import json

import pytest

from advisor.tuners.comparing.measure import SPREAD
from benchmarks.learn_spread import learn, prior
from benchmarks.record_series import SERIES, series_in


@pytest.mark.long
def test_the_file_and_the_script_agree() -> None:
    assert json.loads(SPREAD.read_text()) == learn(series_in(SERIES))


def test_variances_that_differ_more_say_less_of_the_next() -> None:
    assert prior([1.0, 1.1, 0.9])["freedom"] > prior([1.0, 10.0, 0.1])["freedom"]
    assert prior([1.0, 1.01, 0.99])["variance"] == pytest.approx(1.0, rel=0.05)

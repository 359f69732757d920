"""The fit of the forecast: the constants of the library are those that it finds."""

import sys

import numpy as np
import runs

from elmo_tools.pretraining import expectation

sys.path.append(str(runs.PROJECT / "benchmarks"))

import forecast_fit


def test_the_constants_of_the_library_are_fitted_to_the_table():
    fitted = forecast_fit.fit(forecast_fit.read_runs())
    np.testing.assert_allclose(fitted, expectation.COEFFICIENTS, atol=0.0006)


def test_the_expected_perplexities_are_printed(capsys):
    forecast_fit.main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(forecast_fit.read_runs())
    assert "145.6" in "".join(lines)

"""Rounding to narrow formats, against numpy's and ml_dtypes' own casts."""

import ml_dtypes
import numpy as np
import pytest

from kgen.verify.floats import FORMATS

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
}


@pytest.mark.parametrize("name", DTYPES)
def test_rounds_as_a_cast_does(name):
    rng = np.random.default_rng(0)
    # float32 values, since ml_dtypes rounds float64 by way of float32.
    values = (
        rng.standard_normal(20_000) * 2.0 ** rng.integers(-30, 20, 20_000)
    ).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(DTYPES[name]).astype(np.float64)
    np.testing.assert_array_equal(
        FORMATS[name].round(values.astype(np.float64)), expected
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (65504.0, 65504.0),
        (65519.99, 65504.0),
        (65520.0, np.inf),  # Halfway to what would come next.
        (-1e9, -np.inf),
        (2.0**-24, 2.0**-24),
        (2.0**-25, 0.0),  # A tie, to even.
        (3 * 2.0**-25, 2.0**-23),
        (2049.0, 2048.0),
        (2051.0, 2052.0),
        (np.inf, np.inf),
    ],
)
def test_rounds_at_the_edges_of_float16(value, expected):
    assert FORMATS["float16"].round(np.array([value]))[0] == expected


def test_keeps_nan():
    assert np.isnan(FORMATS["bfloat16"].round(np.array([np.nan])))[0]


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_knows_the_limits(name):
    info = np.finfo(DTYPES[name])
    found = FORMATS[name]
    assert found.largest == float(info.max)
    assert found.smallest == float(info.smallest_subnormal)
    assert found.unit_roundoff == float(info.eps) / 2


def test_ulp_is_the_distance_of_neighbours():
    values = np.array([1.0, 1.5, 2.0, 1000.0, 2.0**-20])
    expected = np.spacing(values.astype(np.float16)).astype(np.float64)
    np.testing.assert_array_equal(FORMATS["float16"].ulp(values), expected)

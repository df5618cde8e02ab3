"""Binary floating-point formats, in numpy alone.

Values are float64 arrays; a format says which of them it can hold.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """One format.

    Attributes:
      precision: Bits of the significand, with the implicit one.
      min_exponent: The smallest normal number is 2 ** min_exponent.
    """

    precision: int
    min_exponent: int

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest, for normal numbers."""
        return 2.0**-self.precision

    @property
    def smallest(self) -> float:
        """The smallest positive number, which is subnormal."""
        return 2.0 ** (self.min_exponent - self.precision + 1)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - 2.0 ** (1 - self.precision)) * 2.0 ** (1 - self.min_exponent)

    def _ulp_exponents(self, values: Array) -> NDArray[np.intc]:
        exponents = np.frexp(values)[1]  # |values| < 2 ** exponents
        smallest = self.min_exponent - self.precision + 1
        ulps: NDArray[np.intc] = np.maximum(exponents - self.precision, smallest)
        return ulps

    def round(self, values: Array) -> Array:
        """Rounds to nearest, ties to even; overflow becomes an infinity."""
        exponents = self._ulp_exponents(values)
        rounded = np.ldexp(np.rint(np.ldexp(values, -exponents)), exponents)
        overflow = np.abs(rounded) > self.largest
        return np.where(overflow, np.copysign(np.inf, values), rounded)

    def ulp(self, values: Array) -> Array:
        """Returns the distance of neighbours at `values`."""
        ulps: Array = np.ldexp(np.ones_like(values), self._ulp_exponents(values))
        return ulps


FORMATS = {
    "float16": FloatFormat(precision=11, min_exponent=-14),
    "bfloat16": FloatFormat(precision=8, min_exponent=-126),
    "float32": FloatFormat(precision=24, min_exponent=-126),
}

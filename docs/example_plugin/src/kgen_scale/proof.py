"""How a module of `scale` is verified."""

import json

import numpy as np
from numpy.typing import NDArray

from kgen.verify.request import FUNCTION, OperandCase, Request
from kgen_scale.planner import ScalePlan

# Tiles along m and n, no two alike; the last is lowered, but too large to simulate.
TILES = ((1, 2), (3, 1), (17, 5))


def request(plan: ScalePlan, text: str) -> Request:
    """Returns what the verifier is asked about a module."""
    return Request(
        name=plan.name,
        source=text,
        function=plan.op,
        op=FUNCTION,
        arch=plan.arch,
        cases=tuple(
            OperandCase(
                operands=(f"{plan.dtype}[{m * plan.tile_m},{n * plan.tile_n}]",),
                simulate=m * n <= 4,
            )
            for m, n in TILES
        ),
        out_dtype=plan.dtype,
        allow=plan.allow,
        reference=f"operation:{plan.op}",
        parameters=json.dumps({"alpha": plan.alpha}),
    )


def reference(x: NDArray[np.float64], *, alpha: float) -> NDArray[np.float64]:
    """Returns alpha * x, exactly but for alpha's rounding to float32."""
    return np.float64(np.float32(alpha)) * x

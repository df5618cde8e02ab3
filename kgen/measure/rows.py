"""Some rows of what kernels make of a product: in float64, and how far off they may be."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from kgen.epilogue.numerics import Output
from kgen.epilogue.steps import FLOAT32
from kgen.measure.correct import place_of_rows, rows_of
from kgen.measure.problem import Problem
from kgen.verify import compare
from kgen.verify.epilogue import check
from kgen.verify.explain import LevelError
from kgen.verify.floats import Array
from kgen.verify.request import Request


class Chain(Protocol):
    """What becomes of a product: an epilogue, or the gate of a gated linear unit."""

    def outputs(
        self, product: Array, error: Array, *, exact: bool
    ) -> tuple[Output, ...]:
        """Returns the outputs for a product that is off by at most `error`."""

    def suspects(self, product: Array) -> Iterator[tuple[str, Array]]:
        """Yields the results of well-known faults, by name."""


class Rows:
    """The sampled rows of the outputs of a right kernel.

    Attributes:
      exact: Whether they must be right bit for bit.
    """

    def __init__(
        self,
        problem: Problem,
        request: Request,
        chain: Chain,
        product: Array,
        magnitude: Array,
        *,
        exact: bool,
    ) -> None:
        """Computes them.

        Args:
          problem: The product.
          request: What is asked of the kernels.
          chain: What becomes of it.
          product: Its sampled rows.
          magnitude: The sums of absolute values of its terms.
          exact: Whether kernels have that product exactly.
        """
        accumulated = compare.tolerance(
            product,
            magnitude,
            reduction=problem.shape[2],
            operand_dtype=problem.operand_dtype,
            out_dtype=FLOAT32,
            on_gpu=True,
            promoted=request.promoted,
        )
        error = np.zeros_like(product) if exact else accumulated
        self._problem, self._request, self._chain = problem, request, chain
        self._product, self._magnitude = product, magnitude
        self._wanted = chain.outputs(product, error, exact=exact)
        self.exact = all(output.exact for output in self._wanted)

    def check(self, outputs: Sequence[Any], kind: str) -> None:
        """Compares the rows of a kernel's outputs.

        Raises:
          LevelError: they are not right.
        """
        wrong = check(
            [rows_of(output, self._problem) for output in outputs],
            self._wanted,
            magnitude=self._magnitude,
            out_dtype=self._problem.out_dtype,
            operand_dtype=self._request.summed_dtype,
            suspects=lambda: self._chain.suspects(self._product),
        )
        if wrong is not None:
            place = place_of_rows(self._problem)
            raise LevelError(f"on {kind}: in {place}: {wrong}")

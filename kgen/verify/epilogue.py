"""Arguments of an epilogue, and whether the outputs of a kernel that has one are right."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kgen.epilogue import numerics
from kgen.epilogue.numerics import Output
from kgen.epilogue.steps import FLOAT32, Step, write
from kgen.verify import compare
from kgen.verify.floats import FORMATS, Array
from kgen.verify.request import Request, RequestCase


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue:
    """The steps of an epilogue and what they are tried with.

    Attributes:
      steps: The steps.
      arguments: Their arguments by name.
      approximates: Whether tanh is the hardware's.
    """

    steps: tuple[Step, ...]
    arguments: Mapping[str, Array]
    approximates: bool

    def outputs(
        self,
        product: Array,
        error: Array,
        *,
        exact: bool,
        steps: Sequence[Step] | None = None,
    ) -> tuple[Output, ...]:
        """Returns the outputs for a product that is off by at most `error`."""
        return numerics.evaluate(
            self.steps if steps is None else steps,
            product,
            error,
            self.arguments,
            exact=exact,
            approximates=self.approximates,
        )

    def suspects(self, product: Array) -> Iterator[tuple[str, Array]]:
        """Yields the results of well-known faults, by name."""
        for index, step in enumerate(self.steps):
            before, after = self.steps[:index], self.steps[index + 1 :]
            for what, steps in (
                ("without", (*before, *after)),
                ("with twice", (*before, step, step, *after)),
            ):
                if step.op != "save":
                    first, *_ = self.outputs(
                        product, np.zeros_like(product), exact=False, steps=steps
                    )
                    yield f"that {what} the step {write(step)}", first.values


def draw(
    request: Request, case: RequestCase, rng: np.random.Generator, *, integers: bool
) -> Epilogue:
    """Returns the epilogue of a module with arguments for one size."""
    steps = request.steps
    return Epilogue(
        steps=steps,
        # As B's: per matrix where B is, and the same for all where B is.
        arguments=numerics.draw(
            steps, case.m, case.n, rng, integers=integers, batch=case.b_batch
        ),
        approximates=request.out_dtype != FLOAT32,
    )


def check(
    values: Sequence[Array],
    wanted: Sequence[Output],
    *,
    magnitude: Array,
    out_dtype: str,
    operand_dtype: str,
    suspects: compare.Suspects,
) -> str | None:
    """Compares the outputs of a kernel; returns what is wrong, or None.

    Args:
      values: What it returned.
      wanted: What it should have.
      magnitude: The sums of absolute values of the product's terms.
      out_dtype: Elements of the outputs.
      operand_dtype: Elements of A.
      suspects: Makes the first output of well-known faults, by name and not rounded.
    """
    for index, (found, output) in enumerate(zip(values, wanted, strict=True)):
        wrong = _differs(
            found,
            output,
            magnitude=magnitude,
            out_dtype=out_dtype,
            operand_dtype=operand_dtype,
            suspects=suspects if index == 0 else tuple,
        )
        if wrong is not None:
            return f"{'the saved output: ' if index else ''}{wrong}"
    return None


def _differs(
    values: Array,
    output: Output,
    *,
    magnitude: Array,
    out_dtype: str,
    operand_dtype: str,
    suspects: compare.Suspects,
) -> str | None:
    settled = np.isfinite(output.values) & np.isfinite(output.error)
    if np.count_nonzero(~settled) > compare.ENOUGH * settled.size:
        raise compare.BadReferenceError(
            f"{np.count_nonzero(~settled)} of {settled.size} elements of the reference"
            " overflow within the epilogue, too many for a test"
        )
    values = np.where(settled, values, 0.0)
    output = dataclasses.replace(
        output,
        values=np.where(settled, output.values, 0.0),
        error=np.where(settled, output.error, 0.0),
    )
    if output.exact:
        return compare.exact(
            values,
            output.values,
            magnitude,
            out_dtype=out_dtype,
            operand_dtype=operand_dtype,
            suspects=suspects,
        )
    out = FORMATS[out_dtype]
    rounding = out.unit_roundoff * (np.abs(output.values) + output.error)
    allowed = output.error + rounding + out.smallest / 2
    return compare.close(values, output.values, allowed, out_dtype=out_dtype)

"""What kernels compute at one size, and all that goes with it when they are measured.

Operands with everything that is taken beside them, whether a result is right, and what
XLA has for the same.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

from kgen.errors import KgenError
from kgen.float8 import FLOAT8
from kgen.measure import correct, epilogue, glu, operands, peers, scales, timing
from kgen.measure.correct import Check
from kgen.measure.problem import Problem
from kgen.measure.timing import Compiled, Sets
from kgen.verify.request import GLU, Request

type Function = Callable[..., Any]

SCALES = {"scale", "scale_rows", "scale_columns"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computed:
    """What kernels compute at one size.

    Attributes:
      request: What is asked of them, with one case.
      problem: The product, or one of those of a gated linear unit.
    """

    request: Request
    problem: Problem

    @classmethod
    def of(cls, request: Request) -> Self:
        """Returns what a request with one case asks for."""
        return cls(request=request, problem=Problem.of(request))

    @property
    def needs_reference(self) -> bool:
        """Whether the module's own `reference` tells what is right.

        Without an epilogue or scales, a product is one of XLA's.
        """
        asked = self.request
        return asked.op == GLU or bool(asked.steps) or asked.scale_block > 0

    @property
    def _only_scales(self) -> bool:
        """Whether 8-bit operands are multiplied, and the product is scaled at most."""
        ops = {step.op for step in self.request.steps}
        return self.problem.operand_dtype in FLOAT8 and ops <= SCALES

    def structs(self) -> list[Any]:
        """Returns `jax.ShapeDtypeStruct`s of everything that the function takes."""
        problem, request = self.problem, self.request
        pair = correct.structs(problem)
        if request.op == GLU:
            return [*pair, pair[1]]
        return [
            *pair,
            *scales.structs(problem, request),
            *epilogue.structs(problem, request.steps),
        ]

    def draw(self, l2_bytes: int) -> Sets:
        """Returns sets of everything that the function takes, more than L2 holds."""
        problem, request = self.problem, self.request
        sets: list[tuple[Any, ...]] = [*operands.draw(problem, l2_bytes=l2_bytes)]
        if request.op == GLU:
            return glu.extend(sets)
        if request.scale_block:
            sets = scales.extend(sets, problem, request)
        if request.steps:
            sets = epilogue.extend(sets, problem, request.steps)
        return sets

    def check(self, reference: Function | None) -> Check:
        """Returns what tells whether a kernel is right.

        Args:
          reference: The module's own.

        Raises:
          KgenError: it has none, but needs one.
        """
        if not self.needs_reference:
            return correct.ProductCheck(self.problem)
        make = glu.GluCheck if self.request.op == GLU else epilogue.EpilogueCheck
        return make(self.problem, self.request, _needed(reference))

    def xla(self, sets: Sets, reference: Function | None) -> dict[str, Compiled]:
        """Returns XLA's forms, ready to be timed, by what they are; one has no name.

        That of an epilogue is the reference, compiled as a whole: XLA fuses what it can.
        That of scales is the product without them, if there are blocks of them, or 8-bit
        operands and no other step: no formulation of them is as fast.

        Raises:
          KgenError: the module has no reference, but needs one.
        """
        if self.request.op == GLU:
            return glu.xla(self.request, self.problem, sets)
        product: Function = peers.xla(self.problem)
        if self.request.scale_block or self._only_scales:
            return {"": timing.compile_each(lambda a, b, *_: product(a, b), sets)}
        if self.request.steps:
            product = _needed(reference)
        return {"": timing.compile_each(product, sets)}


def _needed(reference: Function | None) -> Function:
    if reference is None:
        raise KgenError(
            "the module has no function `reference`, which says what is right"
        )
    return reference

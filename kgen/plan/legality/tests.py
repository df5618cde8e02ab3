"""KG8xx: what the standalone test of a kernel can check."""

import keyword
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.plan.dtypes import UNIT_ROUNDOFF
from kgen.plan.legality.base import Finding, rule

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

PYTEST_MARKERS = (
    "filterwarnings",
    "parametrize",
    "skip",
    "skipif",
    "tryfirst",
    "trylast",
    "usefixtures",
    "xfail",
)


@rule(
    "KG801",
    title="Gradients are tested where there are some",
    reason="Without `kernel.autodiff = true` a module is forward only: `jax.grad` of it "
    "raises. A key that is ignored would look like a test that passed.",
    source="JAX, plgpu.kernel has no rule for differentiation",
    bad="[test]\ngradients = true",
    good="[kernel]\nautodiff = true\n[test]\ngradients = true",
)
def gradients(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.spec.test.gradients and not candidate.autodiff:
        yield Finding(
            "test.gradients",
            "test.gradients = true with kernel.autodiff = false",
            "false, or kernel.autodiff = true",
        )


@rule(
    "KG802",
    title="A key of [test] has an effect",
    reason="Without integers nothing is compared bit for bit, and what is compared bit "
    "for bit has no tolerance.",
    source="kgen",
    bad='[test]\ninputs = ["integers"]\nrtol = 0.01',
    good='[test]\ninputs = ["integers", "normal"]\nrtol = 0.01',
)
def effect(candidate: "Candidate") -> Iterator[Finding]:
    test = candidate.spec.test
    for index, kind in enumerate(test.inputs):
        if kind in test.inputs[:index]:
            yield Finding("test.inputs", f'test.inputs has "{kind}" twice')
    if not test.exact and "integers" not in test.inputs:
        yield Finding(
            "test.exact",
            "test.exact = false, but test.inputs has no integers",
            'inputs = ["integers", "normal"], or without this key',
        )
    if test.exact and "normal" not in test.inputs:
        for key in ("rtol", "atol"):
            if getattr(test, key) is not None:
                yield Finding(
                    f"test.{key}",
                    f"test.{key} is set, but everything is compared bit for bit",
                    'inputs = ["integers", "normal"], exact = false, or without this '
                    "key",
                )


@rule(
    "KG803",
    title="test.rtol leaves room for the rounding of the output",
    reason="The exact product lies between two values of the output's dtype. A right "
    "kernel returns the nearer one, and would fail a test that allows for less.",
    source="IEEE 754: 2**-11 for float16, 2**-24 for float32; 2**-8 for bfloat16",
    bad="[test]\nrtol = 0.001",
    good="[test]\nrtol = 0.01",
)
def room_for_rounding(candidate: "Candidate") -> Iterator[Finding]:
    rtol, least = candidate.spec.test.rtol, UNIT_ROUNDOFF[candidate.out_dtype]
    if rtol is not None and rtol < least:
        yield Finding(
            "test.rtol",
            f"test.rtol = {rtol:g} is less than the rounding to {candidate.out_dtype}",
            f"at least {least!r}",
        )


@rule(
    "KG804",
    title="test.gpu_marker is a marker of your own",
    reason="It stands in the test as `@pytest.mark.NAME`. A keyword of Python cannot, "
    "and pytest's own markers mean something else.",
    source="pytest, How to mark test functions with attributes",
    bad='[test]\ngpu_marker = "skip"',
    good='[test]\ngpu_marker = "gpu"',
)
def marker(candidate: "Candidate") -> Iterator[Finding]:
    name = candidate.spec.test.gpu_marker
    if name is None:
        return
    fault = None
    if keyword.iskeyword(name):
        fault = "is a keyword of Python"
    elif name in PYTEST_MARKERS:
        fault = "is a marker of pytest's own"
    if fault is not None:
        yield Finding(
            "test.gpu_marker",
            f'test.gpu_marker = "{name}" {fault}',
            'another name, such as "gpu"',
        )

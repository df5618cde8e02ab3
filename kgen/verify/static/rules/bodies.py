"""KG6xx on a traced kernel: what its body may do."""

from collections.abc import Iterator

from kgen.verify.static.facts import Kernel
from kgen.verify.static.rules.base import Finding, rule

LOWERING = "Mosaic GPU, Pallas lowering; reproduced on a CPU"


@rule(
    "KG611",
    title="A loop in a kernel runs forwards",
    reason="Mosaic GPU lowers no other. Upstream answers with a NotImplementedError "
    "without a message.",
    source=LOWERING,
    bad="lax.scan(step, carry, length=4, reverse=True)",
    good="lax.scan(step, carry, length=4)",
)
def loops(kernel: Kernel) -> Iterator[Finding]:
    for place in kernel.reversed_loops:
        yield Finding(
            place,
            "a loop runs backwards",
            "forward loops",
            "count the index down in the body; see `kgen rule KG611`",
        )


@rule(
    "KG612",
    title="An integer power is at least 2, or -1",
    reason="Mosaic GPU lowers no other. Upstream answers with a NotImplementedError "
    "without a message.",
    source=LOWERING,
    bad="acc * scale**-2",
    good="acc / scale**2",
)
def powers(kernel: Kernel) -> Iterator[Finding]:
    for power in kernel.powers:
        if power.exponent <= 1 and power.exponent != -1:
            yield Finding(
                power.place,
                f"an integer power of {power.exponent}",
                "2 and more, -1",
                "write 1 / x**2 for x**-2; see `kgen rule KG612`",
            )

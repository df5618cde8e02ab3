"""Which rule JAX means by what it raises while a kernel is traced."""

import re

MEANINGS = (
    (r"Mixed input dtypes for matrix multiplication", "KG105"),
    (r"Swizzle \d+ is not supported", "KG205"),
    (r"n must be a positive multiple of 8", "KG403"),
    (r"max_concurrent_steps must be greater than", "KG501"),
    (r"All inputs must have the same delay_release", "KG504"),
    (r"Memory thread must be the last thread", "KG505"),
    (r"SMEM outputs are not supported with multiple compute warpgroups", "KG506"),
    (r"Only inputs with a dependency on the grid are supported", "KG507"),
    (r"BlockSpec with collective_axes= is not supported", "KG508"),
    (r"pipeline of pipelines is (only allowed|not supported) w", "KG509"),
    (r"TMEM references must have either 128 or 64 rows", "KG701"),
    (r"MMA barrier must have orders_tensor_core", "KG705"),
)
"""Patterns of messages, and the rules."""


def code_of(error: BaseException) -> str | None:
    """Returns the code of the rule that `error` is about, if it is one."""
    text = str(error)
    return next((code for known, code in MEANINGS if re.search(known, text)), None)

"""Element types as the plan needs them."""

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4}

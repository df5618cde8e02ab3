"""What is asked of the verifier and what it answers, as frozen values.

All of them make the round trip through JSON: a request travels to the worker process,
a verdict into the cache.
"""

import dataclasses
import json
import re
from typing import Any, Self

from kgen.epilogue.steps import Step, from_json
from kgen.float8 import FLOAT8
from kgen.layouts import LAYOUTS, OUT_ORDERS, ROW, broadcast

PASSED, FAILED, NOT_RUN = "passed", "failed", "not_run"
STATUSES = (PASSED, FAILED, NOT_RUN)

IMPORT = "import"
STATIC, LOWER, SIMULATE, GPU = "static", "lower", "simulate", "gpu"
LEVELS = (STATIC, LOWER, SIMULATE, GPU)
"""The levels that can be asked for, in the order in which they run."""

MATMUL, GLU, FUNCTION = "matmul", "glu", "function"
OPERATION = "operation"
"""Begins a reference that a plug-in brings: `operation:scale`."""
OUT_DTYPES = ("float16", "bfloat16", "float32")
FLOAT32 = "float32"
DTYPES = (*OUT_DTYPES, *FLOAT8)
_TUPLES: dict[Any, type] = {tuple[str, ...]: str, tuple[int, ...]: int}
_OPERAND = re.compile(r"([a-z][a-z0-9_]*)\[((?:[0-9]+(?:,[0-9]+)*)?)\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestCase:
    """One size at which a module is verified.

    Attributes:
      m: Rows of the output.
      n: Columns of the output.
      k: Reduction length.
      smem_bytes: SMEM in bytes that the lowered kernel must ask for; None if unknown.
      simulate: Whether this size is simulated; every size is lowered.
      num_sms: SMs that a persistent kernel is told of; None for its own default.
      a_batch: Leading dimensions of A.
      b_batch: Leading dimensions of B.
      differentiate: Whether the gradients of A and B are verified, too.
      grad_a_smem_bytes: SMEM in bytes that the lowered kernel of A's gradient must ask
        for; None if unknown.
      grad_b_smem_bytes: The same of B's.
    """

    m: int
    n: int
    k: int
    smem_bytes: int | None = None
    simulate: bool = True
    num_sms: int | None = None
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    differentiate: bool = False
    grad_a_smem_bytes: int | None = None
    grad_b_smem_bytes: int | None = None

    def __post_init__(self) -> None:
        broadcast(self.a_batch, self.b_batch)

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions of the result."""
        return broadcast(self.a_batch, self.b_batch)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply, and so no kernel to run."""
        return 0 in (*self.batch, self.m, self.n, self.k)

    @property
    def kernels(self) -> int:
        """Kernels that are run: of the product, and of either gradient."""
        if self.is_empty:
            return 0
        return 3 if self.differentiate else 1

    def __str__(self) -> str:
        text = f"m={self.m}, n={self.n}, k={self.k}"
        if self.a_batch or self.b_batch:
            text = f"a={[*self.a_batch]}, b={[*self.b_batch]}, {text}"
        if self.num_sms is not None:
            text += f", num_sms={self.num_sms}"
        return f"{text}, with gradients" if self.differentiate else text


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperandCase:
    """Operands with which any function is verified.

    Attributes:
      operands: Dtype and shape of each, such as `float16[256,512]`.
      simulate: Whether these are simulated; all are lowered.
    """

    operands: tuple[str, ...]
    simulate: bool = True

    def __post_init__(self) -> None:
        self.shapes()

    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Returns dtype and shape of every operand."""
        return tuple(_parse_operand(operand) for operand in self.operands)

    def __str__(self) -> str:
        return ", ".join(self.operands)


type Case = RequestCase | OperandCase


def is_empty(case: Case) -> bool:
    """Whether no kernel runs at a case."""
    return isinstance(case, RequestCase) and case.is_empty


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A module and what it is to be verified for.

    Attributes:
      name: Name under which the module is imported.
      source: The module's text.
      function: Name of the public function.
      op: `matmul` or `glu`, whose cases are `RequestCase`s and whose result is known; or
        `function` for any other, whose cases are `OperandCase`s.
      arch: GPU architecture that the module is lowered for.
      cases: Sizes, in the order in which they are tried.
      layout: `nn`, `nt`, `tn` or `tt`: see `kgen.layouts`.
      operand_dtype: Elements of A; empty for a `function`.
      b_dtype: Elements of B; empty if they are A's.
      out_dtype: Elements of the result; empty if whatever it returns is right.
      path: The module's file if it is imported where it lies, with what it imports from
        there; empty if `source` stands for itself.
      reference: Name of the module's function that computes what is right, or
        `operation:NAME` for the reference of a plug-in's operation; empty if there is
        none. A `matmul` needs none.
      parameters: What a plug-in's reference takes beside the operands: a JSON object.
      allow: Codes of the legality rules that may be broken.
      beside: Texts of the modules that it imports from beside it, by their names: a JSON
        object.
      package: The package that it imports them from; empty if from none.
      out_order: `row`, or `column` if the result is [n, m].
      epilogue: Steps between a product and the result: JSON, as
        `kgen.epilogue.steps.to_json` writes it.
      promoted: Products of 8-bit floats that the tensor cores add before their sum is
        promoted to registers; 0 for all.
      scale_block: Elements of k, and rows of B, that share a scale; 0 without scales.
      units: What m, n and k must be multiples of, ones if it takes every size; empty if
        nobody knows what the function refuses.
      blocks: Rows, columns and depth of what it computes at once; empty without `units`.
      grad_units: What m, n and k must be multiples of for its gradients; empty if it
        has none.
      batched: Whether operands may have leading dimensions.
      table: What a module that picks kernels must pick: JSON, as `kgen.verify.table`
        reads it; empty if it picks none.
    """

    name: str
    source: str
    function: str
    op: str
    arch: str
    cases: tuple[Case, ...]
    layout: str = "nn"
    operand_dtype: str = ""
    b_dtype: str = ""
    out_dtype: str = ""
    path: str = ""
    reference: str = ""
    parameters: str = "{}"
    allow: tuple[str, ...] = ()
    beside: str = "{}"
    package: str = ""
    out_order: str = ROW
    epilogue: str = "[]"
    promoted: int = 0
    scale_block: int = 0
    units: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    grad_units: tuple[int, ...] = ()
    batched: bool = False
    table: str = ""

    def __post_init__(self) -> None:
        _one_of("op", self.op, tuple(_CASES))
        _one_of("layout", self.layout, LAYOUTS)
        _one_of("out_order", self.out_order, OUT_ORDERS)
        if self.op != FUNCTION:
            for dtype in self.operand_dtypes:
                _one_of("operand_dtype", dtype, DTYPES)
            _one_of("out_dtype", self.out_dtype or OUT_DTYPES[0], OUT_DTYPES)
        if not all(isinstance(case, _CASES[self.op]) for case in self.cases):
            raise ValueError(f"the cases must be {_CASES[self.op].__name__}s")
        if not self.name.isidentifier():
            raise ValueError(f"name must be an identifier, got {self.name!r}")

    @property
    def operand_dtypes(self) -> tuple[str, str]:
        """Elements of A and of B."""
        return self.operand_dtype, self.b_dtype or self.operand_dtype

    @property
    def any_edge(self) -> bool:
        """Whether it is known to take every size."""
        return self.units == (1, 1, 1)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the epilogue."""
        return from_json(self.epilogue)

    @property
    def summed_dtype(self) -> str:
        """Elements of the operands, as far as they limit how exact sums are."""
        return FLOAT32 if self.promoted else self.operand_dtype or FLOAT32

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the module must have."""
        own = () if self.operation or not self.reference else (self.reference,)
        return (self.function, *own)

    @property
    def operation(self) -> str:
        """The operation whose reference computes what is right, if it is a plug-in's."""
        prefix, _, name = self.reference.rpartition(":")
        return name if prefix == OPERATION else ""

    def to_json(self) -> str:
        """Returns the request as JSON: the same bytes for equal requests."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the request that `to_json` wrote.

        Raises:
          ValueError: `text` is no such request.
        """
        fields = _object(text)
        cases = fields.pop("cases", None)
        if not isinstance(cases, list):
            raise ValueError("cases must be a list")
        _one_of("op", fields.get("op"), tuple(_CASES))
        case = _CASES[fields["op"]]
        return _build(cls, fields, cases=tuple(_build(case, c) for c in cases))


_CASES: dict[str, type[RequestCase] | type[OperandCase]] = {
    MATMUL: RequestCase,
    GLU: RequestCase,
    FUNCTION: OperandCase,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LevelResult:
    """What one level found.

    Attributes:
      level: `import` or one of `LEVELS`.
      status: `passed`, `failed` or `not_run`.
      detail: What was wrong, or why the level was not run; may have several lines.
      seconds: Wall time of the level.
      notes: What a user should know of a level that passed, a line each.
    """

    level: str
    status: str
    detail: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _one_of("status", self.status, STATUSES)

    def __str__(self) -> str:
        return f"{self.level} {self.status}" + (f": {self.detail}" * bool(self.detail))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What verification found, level by level.

    Attributes:
      levels: `import` and then every level that was asked for.
      jax_version: JAX that the levels ran on; empty if there is none.
      remembered: Whether the verdict was found in the cache.
    """

    levels: tuple[LevelResult, ...]
    jax_version: str
    remembered: bool = False

    @property
    def passed(self) -> bool:
        """Whether every level passed: one that was not run proves nothing."""
        return bool(self.levels) and all(r.status == PASSED for r in self.levels)

    @property
    def failure(self) -> LevelResult | None:
        """The first level that did not pass, if any."""
        return next((r for r in self.levels if r.status != PASSED), None)

    def to_json(self) -> str:
        """Returns the verdict as JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the verdict that `to_json` wrote.

        Raises:
          ValueError: `text` is no such verdict.
        """
        fields = _object(text)
        levels = fields.pop("levels", None)
        if not isinstance(levels, list):
            raise ValueError("levels must be a list")
        results = tuple(_build(LevelResult, level) for level in levels)
        return _build(cls, fields, levels=results)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return value


def _build[T](cls: type[T], fields: Any, **more: Any) -> T:
    """Returns `cls` from the fields of a JSON object, with their types checked."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, got {type(fields).__name__}")
    types = {
        field.name: field.type
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.name not in more
    }
    if fields.keys() != types.keys():
        raise ValueError(f"expected the fields {sorted(types)}, got {sorted(fields)}")
    fields = {name: _items(value, types[name]) for name, value in fields.items()}
    for name, value in fields.items():
        if not _has_type(value, types[name]):
            raise ValueError(f"{name} must be {types[name]}, got {value!r}")
    return cls(**fields, **more)


def _has_type(value: object, expected: Any) -> bool:
    """Whether `value` is of a type; `True` is no integer, and an integer no float."""
    if expected in _TUPLES:
        return isinstance(value, tuple)
    return type(value) in getattr(expected, "__args__", (expected,))


def _items(value: Any, expected: Any) -> Any:
    """Returns a list of strings or integers, which is how JSON has them, as a tuple."""
    of = _TUPLES.get(expected)
    if of and isinstance(value, list) and all(type(item) is of for item in value):
        return tuple(value)
    return value


def _parse_operand(text: str) -> tuple[str, tuple[int, ...]]:
    match = _OPERAND.fullmatch(text)
    if match is None:
        raise ValueError(f"an operand must be like float16[256,512], got {text!r}")
    return match[1], tuple(int(size) for size in match[2].split(",") if size)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")

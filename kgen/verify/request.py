"""What is asked of the verifier and what it answers, as frozen values.

All of them make the round trip through JSON: a request travels to the worker process,
a verdict into the cache.
"""

import dataclasses
import json
from typing import Any, Self

PASSED, FAILED, NOT_RUN = "passed", "failed", "not_run"
STATUSES = (PASSED, FAILED, NOT_RUN)

IMPORT, LOWER, SIMULATE = "import", "lower", "simulate"
LEVELS = (LOWER, SIMULATE)
"""The levels that can be asked for, in the order in which they run."""

LAYOUTS = ("nn", "nt")
DTYPES = ("float16", "bfloat16", "float32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestCase:
    """One size at which a module is verified.

    Attributes:
      m: Rows of the output.
      n: Columns of the output.
      k: Reduction length.
      smem_bytes: SMEM in bytes that the lowered kernel must ask for; None if unknown.
      simulate: Whether this size is simulated; every size is lowered.
    """

    m: int
    n: int
    k: int
    smem_bytes: int | None = None
    simulate: bool = True

    def __str__(self) -> str:
        return f"m={self.m}, n={self.n}, k={self.k}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A module and what it is to be verified for.

    Attributes:
      name: Name under which the module is imported.
      source: The module's text.
      function: Name of the public function.
      op: The operation, a key of `kgen.verify.reference.OPERATIONS`.
      arch: GPU architecture that the module is lowered for.
      layout: `nn`, or `nt` if B is [n, k].
      operand_dtype: Elements of A and B.
      out_dtype: Elements of the result.
      cases: Sizes, in the order in which they are tried.
    """

    name: str
    source: str
    function: str
    op: str
    arch: str
    layout: str
    operand_dtype: str
    out_dtype: str
    cases: tuple[RequestCase, ...]

    def __post_init__(self) -> None:
        _one_of("layout", self.layout, LAYOUTS)
        _one_of("operand_dtype", self.operand_dtype, DTYPES)
        _one_of("out_dtype", self.out_dtype, DTYPES)
        if not self.name.isidentifier():
            raise ValueError(f"name must be an identifier, got {self.name!r}")

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
        return _build(cls, fields, cases=tuple(_build(RequestCase, c) for c in cases))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LevelResult:
    """What one level found.

    Attributes:
      level: `import`, `lower` or `simulate`.
      status: `passed`, `failed` or `not_run`.
      detail: What was wrong, or why the level was not run; may have several lines.
      seconds: Wall time of the level.
    """

    level: str
    status: str
    detail: str = ""
    seconds: float = 0.0

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
    for name, value in fields.items():
        # `True` is no integer here, and an integer no float.
        allowed = types[name].__args__ if hasattr(types[name], "__args__") else ()  # type: ignore[union-attr]
        if type(value) not in (allowed or (types[name],)):
            raise ValueError(f"{name} must be {types[name]}, got {value!r}")
    return cls(**fields, **more)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")

"""The steps of an epilogue as frozen values: what a plan, a request and a module say.

A module's docstring lists them, one a line, as they are written here: `bias(bias,
along="n")`. They are read from there when a module is verified as it is.
"""

import ast
import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any, Self

ARRAYS = {"scale_rows": "m", "scale_columns": "n", "residual": "mn"}
"""The dimensions that the argument of a step has, where `along` does not say."""
TRANSCENDENTAL = frozenset({"gelu", "silu", "tanh", "sigmoid", "softcap"})
"""Steps whose results are rounded in some way of their own."""
FLOAT32 = "float32"

_LINE = re.compile(r"^ {4}(?P<step>[a-z_]+\(.*\)) {2,}\S.*$", re.MULTILINE)
_OPERAND = re.compile(
    r"^ {4}(?P<name>\w+) +(?P<dtype>\w+)\[(?:\.\.\.(?:, )?)?(?:m|n|m, n)?\]",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One step of an epilogue.

    Attributes:
      op: What it does, as a spec names it.
      argument: Name of the function's argument that it takes; empty if it takes none.
      dtype: Elements of that argument; of a cast, what is rounded to; else empty.
      along: Of a bias: the dimension that it lies along, `m` or `n`.
      value: Of a scale its constant, if it has one; of a residual its `beta`; of a
        softcap its `cap`.
      low: Of a clamp: the smallest value, if there is one.
      high: The largest, too.
      approximate: Of a gelu: `tanh` or `erf`.
    """

    op: str
    argument: str = ""
    dtype: str = ""
    along: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    approximate: str = ""

    @property
    def axes(self) -> str:
        """The dimensions of its argument: `m`, `n`, `mn` or none."""
        return self.along or ARRAYS.get(self.op, "")

    def shape(self, m: int, n: int, batch: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Returns the shape of its argument for an [m, n] output, or a batch of them."""
        return (*batch, *({"m": m, "n": n}[axis] for axis in self.axes))

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Returns the step with these attributes.

        Raises:
          ValueError: they are not those of a step.
        """
        try:
            step = cls(**fields)
        except TypeError as error:
            raise ValueError(f"no step of an epilogue: {fields}") from error
        if step.op not in WRITTEN:
            raise ValueError(f"no step of an epilogue is called {step.op!r}")
        return step


WRITTEN: dict[str, dict[str, str]] = {
    # What is written in brackets behind the argument: keyword and attribute.
    "scale": {"value": "value"},
    "scale_rows": {},
    "scale_columns": {},
    "bias": {"along": "along"},
    "residual": {"beta": "value"},
    "relu": {},
    "gelu": {"approximate": "approximate"},
    "silu": {},
    "tanh": {},
    "sigmoid": {},
    "clamp": {"min": "low", "max": "high"},
    "softcap": {"cap": "value"},
    "cast": {"dtype": "dtype"},
    "save": {},
}


def with_argument(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Returns the steps that take an argument, in the order of the arguments."""
    return tuple(step for step in steps if step.argument)


def saves(steps: Sequence[Step]) -> bool:
    """Whether there is a second output."""
    return any(step.op == "save" for step in steps)


def write(step: Step) -> str:
    """Returns a step as a docstring lists it, such as `bias(bias, along="n")`."""
    pairs = [
        f"{key}={_literal(value)}"
        for key, attribute in WRITTEN[step.op].items()
        if (value := getattr(step, attribute)) is not None
    ]
    return f"{step.op}({', '.join([*filter(None, [step.argument]), *pairs])})"


def read(docstring: str) -> tuple[Step, ...]:
    """Returns the steps that a module's docstring lists.

    Raises:
      ValueError: it lists what is none.
    """
    dtypes = {match["name"]: match["dtype"] for match in _OPERAND.finditer(docstring)}
    return tuple(_read(match["step"], dtypes) for match in _LINE.finditer(docstring))


def _read(text: str, dtypes: dict[str, str]) -> Step:
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        op = ast.unparse(call.func)
        names = WRITTEN[op]
        fields = {names[str(k.arg)]: ast.literal_eval(k.value) for k in call.keywords}
        for argument in call.args:
            name = ast.unparse(argument)
            fields |= {"argument": name, "dtype": dtypes[name]}
        return Step.of({"op": op, **fields})
    except (AssertionError, KeyError, SyntaxError) as error:
        raise ValueError(f"no step of an epilogue: {text}") from error


def to_json(steps: Sequence[Step]) -> str:
    """Returns steps as JSON: the same text for the same steps."""
    return json.dumps([dataclasses.asdict(step) for step in steps], sort_keys=True)


def from_json(text: str) -> tuple[Step, ...]:
    """Returns the steps that `to_json` wrote.

    Raises:
      ValueError: `text` is none of its.
    """
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("an epilogue must be a list of steps")
    return tuple(map(Step.of, found))


def _literal(value: object) -> str:
    """Returns a constant as Python source with double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)

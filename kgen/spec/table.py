"""What every table of a spec is: frozen, strict and without unknown keys."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of the spec."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True
    )

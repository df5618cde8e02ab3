"""What every plan says, whatever the operation."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from kgen.spec.source import SourcedSpec


class Plan(Protocol):
    """The plan of any operation: see `OperationPlan` for the attributes."""

    # It is a dataclass, whichever.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def op(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def spec_path(self) -> str: ...
    @property
    def spec_digest(self) -> str: ...
    @property
    def test_digest(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def allow(self) -> tuple[str, ...]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperationPlan:
    """The plan of a plug-in's operation, to be extended by what that decides.

    Attributes:
      op: The operation.
      name: Name of the module.
      doc: The user's text for the module's docstring; may be empty.
      spec_path: The spec file, as its project names it.
      spec_digest: Digest of what the spec says about the module.
      test_digest: Digest of all that it says, for the standalone test.
      arch: Target such as `sm_90a`.
      allow: Codes of the legality rules that the kernel may break.
    """

    op: ClassVar[str]
    name: str
    doc: str
    spec_path: str
    spec_digest: str
    test_digest: str
    arch: str
    allow: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: "SourcedSpec", **decided: Any) -> Self:
        """Returns the plan of a spec, from what it says and what is `decided`."""
        kernel = source.spec.kernel
        return cls(
            name=kernel.name,
            doc=kernel.doc,
            spec_path=source.place,
            spec_digest=source.digest,
            test_digest=source.test_digest,
            arch=kernel.arch,
            **decided,
        )

"""The pieces of JAX behind a traced Mosaic GPU kernel, none of which are public."""

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kgen.verify.upstream import UnavailableError, check_version

_CORE = "jax._src.pallas.mosaic_gpu.core"
_PRIMITIVES = "jax._src.pallas.mosaic_gpu.primitives"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pieces:
    """Classes and primitives that a kernel's jaxpr consists of.

    Attributes:
      core: Module of Mosaic GPU's refs, meshes and transforms.
      primitives: Module of its primitives.
      kernel: Primitive of a whole kernel.
      run_scoped: Primitive that allocates.
      indexer: Class of a transform that indexes.
      slice: Class of a slice in it.
      transpose: Class of a transform that transposes.
      reshape: Class of a transform that reshapes.
      literal: Class of constants in a jaxpr.
      itemsize_bits: Returns the bits of one element.
    """

    core: Any
    primitives: Any
    kernel: Any
    run_scoped: Any
    indexer: Any
    slice: Any
    transpose: Any
    reshape: Any
    literal: Any
    itemsize_bits: Callable[[Any], int]


def load() -> Pieces:
    """Returns the pieces.

    Raises:
      UnavailableError: one is not where it was in the versions that kgen knows.
    """
    check_version()
    try:
        core: Any = importlib.import_module(_CORE)
        primitives: Any = importlib.import_module(_PRIMITIVES)
        types: Any = importlib.import_module("jax._src.state.types")
        indexing: Any = importlib.import_module("jax._src.state.indexing")
        jax_core: Any = importlib.import_module("jax._src.core")
        _ = primitives.wgmma_ref_p, primitives.tcgen05_mma_p, core.AbstractRefUnion
        _ = primitives.copy_gmem_to_smem_p, primitives.copy_smem_to_gmem_p
        _ = primitives.set_max_registers_p, core.Mesh, core.MemorySpace.TMEM
        _ = core.UnswizzleRef, core.UntilingTransform, core.WGMMAAbstractAccumulatorRef
        _ = core.BarrierType, core.ClusterBarrierType, core.ExtractAliasedRef
        return Pieces(
            core=core,
            primitives=primitives,
            kernel=importlib.import_module("jax._src.pallas.mpmd").mpmd_map_p,
            run_scoped=importlib.import_module(
                "jax._src.pallas.primitives"
            ).run_scoped_p,
            indexer=indexing.NDIndexer,
            slice=indexing.Slice,
            transpose=types.TransposeTransform,
            reshape=types.ReshapeTransform,
            literal=jax_core.Literal,
            itemsize_bits=importlib.import_module("jax._src.dtypes").itemsize_bits,
        )
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error


def opened(jaxpr: Any) -> Any:
    """Returns a jaxpr that may be closed over constants as it is without them."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def jaxprs_in(parameters: Iterable[Any]) -> Iterator[Any]:
    """Yields the jaxprs among the parameters of an operation."""
    for value in parameters:
        for entry in value if isinstance(value, tuple | list) else (value,):
            if hasattr(opened(entry), "eqns"):
                yield opened(entry)


@contextlib.contextmanager
def lenient_layouts(pieces: Pieces) -> Iterator[None]:
    """Lets kernels be traced whose layouts do not fit the shapes.

    JAX asserts that without a message where the ref is made, so that nothing would be
    known about what the ref is for. In here such a layout changes no shape; whether it
    fits is a rule like any other.
    """
    core = pieces.core
    classes = (core.TilingTransform, core.UntilingTransform, core.SwizzleTransform)
    before = [cls.transform_type for cls in classes]
    for cls, method in zip(classes, before, strict=True):
        cls.transform_type = _or_unchanged(method)
    try:
        yield
    finally:
        for cls, method in zip(classes, before, strict=True):
            cls.transform_type = method


def _or_unchanged(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(method)
    def transform_type(self: Any, x: Any) -> Any:
        try:
            return method(self, x)
        except (AssertionError, ValueError):
            return x

    return transform_type

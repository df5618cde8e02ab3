"""The pieces of JAX's GPU interpreter that the simulator builds on, and how it is called.

All of them are private to JAX. `load` looks them up by name and says what is missing;
no other module of this package imports `jax._src`.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgen.verify.explain import NotModelledError
from kgen.verify.upstream import UnavailableError, jax_version

_PALLAS = "jax._src.pallas"
_INTERPRET = f"{_PALLAS}.mosaic_gpu.interpret"
_MODULES = {
    "callbacks": f"{_INTERPRET}.gpu_callbacks",
    "interpret": f"{_INTERPRET}.jaxpr_interpret",
    "memory": f"{_INTERPRET}.shared_memory",
    "ranges": f"{_PALLAS}.mosaic.interpret.utils",
    "gpu": f"{_PALLAS}.mosaic_gpu.primitives",
    "gpu_core": f"{_PALLAS}.mosaic_gpu.core",
    "pallas": f"{_PALLAS}.primitives",
    "pallas_core": f"{_PALLAS}.core",
    "state": "jax._src.state.types",
    "indexing": "jax._src.state.indexing",
    "discharge": "jax._src.state.discharge",
    "pjit": "jax._src.pjit",
    "sources": "jax._src.source_info_util",
    "core": "jax._src.core",
}
# What is called or patched, by module. Primitives are looked up where they are handled.
_NEEDED = {
    "callbacks": (
        "HostAllocationKey _get_shared_memory _remove_noop_transforms"
        " TOKEN_SHAPE_DTYPE call_allocate_buffer call_barrier_arrive"
        " call_deallocate_buffer call_make_allocation_request_array fail_on_exception"
        " get_races"
    ),
    "interpret": (
        "JaxprInterpreter _get_barrier_allocation_key_from_inval callback resolve_ref"
    ),
    "memory": "GPULoggingInfo GPUSharedMemory get_memory_space_idx",
    "ranges": (
        "Access JaxprEnv clip_range_to_shape get_indices get_uninitialized_value"
    ),
    "gpu_core": "MemorySpace",
    "pallas_core": "semaphore",
    "state": "AbstractRef TransposeTransform",
    "indexing": "NDIndexer Slice",
    "sources": "user_context",
    "core": "Literal",
}

Handler = Callable[[Any, Any, Any, Sequence[Any]], tuple[Any, list[Any]]]
"""Interprets one equation: `(interpreter, eqn, token, invals)` to `(token, outs)`."""


@dataclasses.dataclass(frozen=True)
class Jax:
    """JAX's modules, by the names of `_MODULES`."""

    callbacks: Any
    interpret: Any
    memory: Any
    ranges: Any
    gpu: Any
    gpu_core: Any
    pallas: Any
    pallas_core: Any
    state: Any
    indexing: Any
    discharge: Any
    pjit: Any
    sources: Any
    core: Any

    def is_ref(self, var: Any) -> bool:
        """Whether a variable of a jaxpr is a ref, and not a value."""
        return isinstance(var.aval, self.state.AbstractRef)

    def resolve(self, var: Any, value: Any, tree: Any, leaves: Any) -> tuple[Any, Any]:
        """Returns the allocation and the transforms that an operand names.

        Raises:
          NotModelledError: the operand is transformed in a way that is not modelled.
        """
        import jax

        transforms = () if tree is None else jax.tree.unflatten(tree, leaves)
        key, transforms = self.interpret.resolve_ref(var.aval, value, transforms)
        self.check_transforms(transforms)
        return key, tuple(transforms)

    def check_transforms(self, transforms: Sequence[Any]) -> None:
        """Raises `NotModelledError` for all but slices, indices and transposes."""
        import jax

        for transform in self.callbacks._remove_noop_transforms(tuple(transforms)):
            if isinstance(transform, self.state.TransposeTransform):
                continue
            name = type(transform).__name__
            if not isinstance(transform, self.indexing.NDIndexer):
                raise refused(f"an operand with {name} is not modelled")
            if any(getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(transform)):
                raise refused("gathers and scatters are not modelled")

    def call(
        self,
        function: Callable[..., Any],
        interpreter: Any,
        token: Any,
        *,
        source_info: Any,
        result: Any = None,
        **arrays: Any,
    ) -> Any:
        """Has `function(site, **arrays)` called on the host when the kernel runs.

        Returns:
          The token, and the value if `result` gives its shape and dtype.
        """

        def run(*, token: Any, mesh_location: Any, thread: Any, **values: Any) -> Any:
            value = function(Site(self, mesh_location, thread, source_info), **values)
            return token if result is None else (token, value)

        shape = self.callbacks.TOKEN_SHAPE_DTYPE
        return self.interpret.callback.io_callback(
            self.callbacks.fail_on_exception(run),
            shape if result is None else (shape, result),
            token=token,
            mesh_location=interpreter.mesh_location,
            thread=interpreter.thread,
            **arrays,
        )


@dataclasses.dataclass(frozen=True)
class Site:
    """Where an operation happens, while a kernel runs."""

    jax: Jax
    mesh_location: Any
    thread: Any
    source_info: Any

    @functools.cached_property
    def shared(self) -> Any:
        """The simulated memory and its clocks."""
        return self.jax.callbacks._get_shared_memory()

    @property
    def detects_races(self) -> bool:
        """Whether clocks are kept."""
        return bool(self.shared.detect_races)

    @property
    def logging_info(self) -> Any:
        """What JAX's memory wants to know for its log."""
        return self.jax.memory.GPULoggingInfo(
            self.mesh_location, self.thread, self.source_info
        )

    def place(self, key_as_array: Any, transforms: Any) -> "Place":
        """Returns what is touched of an allocation."""
        import jax

        key = self.jax.callbacks.HostAllocationKey.from_array(key_as_array)
        kept = self.jax.callbacks._remove_noop_transforms(tuple(transforms))
        return Place(key, self.shared.access(key, jax.tree.map(int, kept)))

    def check_read(self, clock: Any, place: "Place") -> None:
        """Reports a race of a read with earlier writes."""
        self.jax.callbacks.get_races().check_read(
            self.thread, clock, place.key, place.access, source_info=self.source_info
        )

    def check_write(self, clock: Any, place: "Place") -> None:
        """Reports a race of a write with earlier accesses."""
        self.jax.callbacks.get_races().check_write(
            self.thread, clock, place.key, place.access, source_info=self.source_info
        )

    def read(self, place: "Place") -> tuple[Any, Any]:
        """Returns what of a place is in bounds, None if nothing, and the dtype."""
        values, (_, dtype), _ = self.shared.get_buffer_content(
            place.key,
            place.access,
            self.thread,
            increment_clock=False,
            logging_info=self.logging_info,
        )
        return values, dtype

    def write(self, place: "Place", values: Any) -> None:
        """Stores values of the place's shape; `IndexError` out of bounds."""
        self.shared.store_buffer_content(
            place.key,
            place.access,
            values,
            self.thread,
            increment_clock=False,
            logging_info=self.logging_info,
        )


@dataclasses.dataclass(frozen=True)
class Place:
    """An allocation and what is touched of it."""

    key: Any
    access: Any

    def __str__(self) -> str:
        return f"[{', '.join(map(_index, self.access.range))}]"


def _index(index: Any) -> str:
    if not isinstance(index, slice):
        return str(index)
    step = f":{index.step}" if index.step not in (None, 1) else ""
    return f"{index.start}:{index.stop}{step}"


def load() -> Jax:
    """Returns the imported JAX's pieces.

    Raises:
      UnavailableError: a piece is not where it was in the versions kgen knows.
    """
    try:
        jax = Jax(**{name: importlib.import_module(m) for name, m in _MODULES.items()})
        for name, attribute in _needed():
            getattr(getattr(jax, name), attribute)
    except (ImportError, AttributeError) as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    return jax


def _needed() -> Iterator[tuple[str, str]]:
    for name, attributes in _NEEDED.items():
        for attribute in attributes.split():
            yield name, attribute


def refused(why: str) -> NotModelledError:
    """Returns the error for what cannot be simulated."""
    return NotModelledError(f"not simulated on jax {jax_version()}: {why}")

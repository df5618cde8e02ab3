"""Writes down the operations that rules are about, as facts."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kgen.registers import REGISTER_BITS, WARPGROUP_THREADS
from kgen.verify.static import refs
from kgen.verify.static.facts import (
    ACCUMULATOR,
    BARRIER,
    SMEM,
    TMEM,
    Allocation,
    Copy,
    MaxRegisters,
    Operand,
    Place,
    Power,
    Product,
)
from kgen.verify.static.pieces import Pieces
from kgen.verify.static.resources import tmem_columns

if TYPE_CHECKING:
    from kgen.verify.static.walk import Ref, Scope

_TOUCHES = ("get", "swap", "addupdate", "load", "store", "async_load", "async_store")


class Recorder:
    """Collects the facts of one kernel.

    Attributes:
      allocations: Memory.
      wgmmas: Products on Hopper.
      mmas: Products on Blackwell.
      registers: Every setmaxnreg.
      powers: Integer powers.
      reversed_loops: Places of loops that run backwards.
    """

    def __init__(self, pieces: Pieces, lane_semantics: bool) -> None:
        self.pieces = pieces
        self.lane_semantics = lane_semantics
        self.allocations: list[Allocation] = []
        self.wgmmas: list[Product] = []
        self.mmas: list[Product] = []
        self.registers: list[MaxRegisters] = []
        self.powers: list[Power] = []
        self.reversed_loops: list[Place] = []
        self._copies: list[tuple[Copy, object]] = []
        # Memory that threads or tensor cores read: Mosaic GPU may lay it out anew.
        self._touched: set[object] = set()
        primitives = pieces.primitives
        self._recorders: dict[Any, Callable[..., None]] = {
            primitives.wgmma_ref_p: self._wgmma,
            primitives.tcgen05_mma_p: self._mma,
            primitives.copy_gmem_to_smem_p: self._load,
            primitives.copy_smem_to_gmem_p: self._store,
            primitives.set_max_registers_p: self._set_max_registers,
        }

    def record(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> bool:
        """Records an operation; whether it is one that rules are about."""
        recorder = self._recorders.get(eqn.primitive)
        if recorder is not None:
            recorder(eqn, inputs, scope, lookup)
            return True
        if eqn.primitive.name == "integer_pow":
            exponent = int(eqn.params["y"])
            self.powers.append(Power(place=scope.place, exponent=exponent))
        if eqn.primitive.name.startswith(_TOUCHES) and inputs:
            self._touched.update(getattr(value, "root", None) for value in inputs)
        return False

    def all_copies(self) -> tuple[Copy, ...]:
        """Returns the copies; those of layouts that may still change are marked."""
        return tuple(
            dataclasses.replace(copy, inferred=copy.inferred and root in self._touched)
            for copy, root in self._copies
        )

    def allocate(self, ref: "Ref", transforms: Any, scope: "Scope", live: int) -> int:
        """Records an allocation; returns its registers per thread."""
        core, aval = self.pieces.core, ref.aval
        if isinstance(aval.dtype, core.BarrierType | core.ClusterBarrierType):
            self.allocations.append(
                Allocation(
                    place=scope.place,
                    space=BARRIER,
                    shape=tuple(aval.shape),
                    collective_axes=_flat(getattr(aval.dtype, "collective_axes", ())),
                    threads=scope.threads,
                )
            )
            return 0
        spaces = {
            core.MemorySpace.SMEM: SMEM,
            core.MemorySpace.TMEM: TMEM,
            core.MemorySpace.REGS: ACCUMULATOR,
        }
        space = spaces.get(aval.memory_space)
        if space is None:
            return 0
        bits = self.pieces.itemsize_bits(aval.dtype)
        layout = refs.layout_of(self.pieces, transforms)
        logical = refs.logical_type(aval, transforms)
        shape = tuple(aval.shape if logical is None else logical.shape)
        registers = 0
        if space == ACCUMULATOR:
            size = refs.bytes_of(shape, bits) * 8
            registers = size // (WARPGROUP_THREADS * REGISTER_BITS)
        self.allocations.append(
            Allocation(
                place=scope.place,
                space=space,
                shape=shape,
                dtype=str(aval.dtype),
                bits=bits,
                layout=layout,
                layout_fault=refs.layout_fault(self.pieces, aval, transforms, shape),
                columns=tmem_columns(self.pieces, aval) if space == TMEM else 0,
                registers=live + registers,
                threads=scope.threads,
            )
        )
        return registers

    def _wgmma(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> None:
        trees = [eqn.params[f"{name}_transforms_tree"] for name in ("acc", "a", "b")]
        (acc, a, b), _ = refs.split(eqn.invars[3:], trees)
        self._product(self.wgmmas, eqn, inputs, scope, (acc, a, b), collective=False)

    def _mma(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> None:
        params = eqn.params
        extra = params["arrive"] + 2 * params["scaled"] + params.get("sparse", False)
        trees = [params[f"{name}_transforms_tree"] for name in ("acc", "a", "b")]
        transforms, _ = refs.split(eqn.invars[4 + extra :], trees)
        collective = params["collective_axis"] is not None
        self._product(
            self.mmas, eqn, inputs, scope, tuple(transforms), collective=collective
        )

    def _product(
        self,
        products: list[Product],
        eqn: Any,
        inputs: list[Any],
        scope: "Scope",
        transforms: tuple[Any, ...],
        *,
        collective: bool,
    ) -> None:
        accumulator = refs.logical_type(eqn.invars[0].aval, transforms[0])
        if accumulator is None:
            return
        self._touched.update(getattr(value, "root", None) for value in inputs[1:3])
        products.append(
            Product(
                place=scope.place,
                m=int(accumulator.shape[0]),
                n=int(accumulator.shape[1]),
                a=self._operand(eqn.invars[1].aval, transforms[1], k_dimension=1),
                b=self._operand(eqn.invars[2].aval, transforms[2], k_dimension=0),
                accumulator=str(accumulator.dtype),
                collective=collective,
                threads=scope.threads,
            )
        )

    def _operand(self, aval: Any, transforms: Any, *, k_dimension: int) -> Operand:
        core = self.pieces.core
        space = getattr(aval, "memory_space", None)
        names = {core.MemorySpace.SMEM: "smem", core.MemorySpace.TMEM: "tmem"}
        logical = refs.logical_type(aval, transforms)
        dtype = aval.dtype if logical is None else logical.dtype
        minor = refs.minor_dimension(self.pieces, aval, transforms)
        return Operand(
            shape=None if logical is None else tuple(logical.shape),
            dtype=str(dtype),
            itemsize=self.pieces.itemsize_bits(dtype) // 8,
            space=names.get(space, "registers"),
            layout=refs.layout_of(self.pieces, transforms),
            k_major=None if minor is None else minor == k_dimension,
        )

    def _load(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> None:
        params = eqn.params
        count = 3 if params.get("has_barrier", True) else 2
        names = ("src_transforms_treedef", "dst_transforms_treedef")
        (gmem, smem), _ = refs.split(eqn.invars[count:], [params[n] for n in names])
        barrier = eqn.invars[2].aval.dtype if count == 3 else None
        axes = params.get("collective_axes") or ()
        window = self._window(eqn.invars[0].aval, gmem, lookup)
        if window is not None:
            copy = self._copy(eqn.invars[0].aval, window, smem, scope)
            copy = dataclasses.replace(
                copy,
                collective_axes=_flat(axes),
                orders_tensor_core=bool(getattr(barrier, "orders_tensor_core", False)),
            )
            self._copies.append((copy, getattr(inputs[1], "root", None)))

    def _store(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> None:
        names = ("src_transforms_treedef", "dst_transforms_treedef")
        trees = [eqn.params[name] for name in names]
        (smem, gmem), _ = refs.split(eqn.invars[2:], trees)
        window = self._window(eqn.invars[1].aval, gmem, lookup)
        if window is not None:
            copy = self._copy(eqn.invars[1].aval, window, smem, scope)
            copy = dataclasses.replace(copy, to_smem=False)
            self._copies.append((copy, getattr(inputs[0], "root", None)))

    def _window(
        self, gmem: Any, transforms: Any, lookup: refs.Lookup
    ) -> refs.Window | None:
        shape = tuple(map(int, gmem.shape))
        return refs.window(self.pieces, shape, transforms, lookup)

    def _copy(
        self, gmem: Any, window: refs.Window, smem_transforms: Any, scope: "Scope"
    ) -> Copy:
        """Returns a load that no other CTA shares."""
        layout = refs.layout_of(self.pieces, smem_transforms)
        plain = layout.tiling is None and layout.swizzle is None
        return Copy(
            place=scope.place,
            to_smem=True,
            gmem_shape=tuple(map(int, gmem.shape)),
            dtype=str(gmem.dtype),
            bits=self.pieces.itemsize_bits(gmem.dtype),
            box=window.sizes,
            squeezed=window.squeezed,
            steps=window.steps,
            offsets=window.offsets,
            layout=layout,
            inferred=plain and not self.lane_semantics,
            collective_axes=(),
            orders_tensor_core=False,
            guards=scope.guards,
        )

    def _set_max_registers(
        self, eqn: Any, inputs: list[Any], scope: "Scope", lookup: refs.Lookup
    ) -> None:
        self.registers.append(
            MaxRegisters(
                place=scope.place,
                count=int(eqn.params["n"]),
                increase=eqn.params["action"] == "increase",
                threads=scope.threads,
            )
        )


def _flat(axes: Any) -> tuple[str, ...]:
    """Returns the names among axes, some of which may stand together."""
    if isinstance(axes, tuple | list):
        return tuple(name for axis in axes for name in _flat(axis))
    return (str(axes),)

"""JAX's shipped Hopper matmul as a peer: its configurations, and how it is called."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from kgen.arch import SM_90A
from kgen.layouts import ROW
from kgen.measure.peers import NoPeerError
from kgen.measure.problem import Problem

_OWN_TILES = ((128, 128), (256, 64), (128, 64), (256, 128))
_SMALL_TILES = ((64, 128), (64, 64))
_AXES = {"m": 0, "n": 1}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One configuration; every field is one of the shipped file's `TuningConfig`.

    Attributes:
      tile_m: Rows of a compute warpgroup's tile.
      tile_n: Columns of it.
      tile_k: Columns of A in a step.
      max_concurrent_steps: Slots of the ring.
      grid_minor_dim: `m` or `n`.
      grid_tile_width: Tiles that are walked side by side.
      wg_dimension: `m` or `n`, along which the two compute warpgroups lie.
      cluster_dimension: `m`, `n` or None, along which two CTAs share an operand.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    grid_minor_dim: str
    grid_tile_width: int
    wg_dimension: str
    cluster_dimension: str | None = None

    def __str__(self) -> str:
        cluster = self.cluster_dimension
        return (
            f"tile {self.tile_m}x{self.tile_n}x{self.tile_k},"
            f" {self.max_concurrent_steps} slots, warpgroups along {self.wg_dimension},"
            f" raster {self.grid_minor_dim} {self.grid_tile_width}"
            + (f", cluster along {cluster}" if cluster else "")
        )

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Rows and columns that one cluster computes at once."""
        sizes = {"m": self.tile_m, "n": self.tile_n}
        for axis in (self.wg_dimension, self.cluster_dimension):
            if axis:
                sizes[axis] *= 2
        return sizes["m"], sizes["n"]

    @property
    def ring_bytes(self) -> int:
        """SMEM that the ring of one CTA takes, at two bytes an element."""
        rows, columns = self.tile_m, self.tile_n
        if self.wg_dimension == "m":
            rows *= 2
        else:
            columns *= 2
        return 2 * (rows + columns) * self.tile_k * self.max_concurrent_steps

    def ctas(self, shape: tuple[int, int, int]) -> int:
        """Returns the tiles of CTAs that a product has."""
        m, n, _ = shape
        rows, columns = self.cluster_tile
        return m // rows * (n // columns) * (2 if self.cluster_dimension else 1)


def examples(problem: Problem) -> list[Example]:
    """Returns the configurations to try, the most promising first.

    They are those of the shipped file's own sweep that divide the sizes and fit in SMEM,
    and then the same with clusters of two, and with smaller tiles. Before all come those that keep
    the most SMs busy.

    Raises:
      NoPeerError: the example cannot compute such a product.
    """
    if problem.layout != "nn":
        raise NoPeerError("JAX's example takes A as [m, k] and B as [k, n] alone")
    if problem.out_order != ROW:
        raise NoPeerError("JAX's example returns C as [m, n] alone")
    if problem.operand_dtype != problem.out_dtype or problem.operand_dtype == "float32":
        raise NoPeerError(
            "JAX's example takes float16 or bfloat16, and returns what it takes"
        )
    found = [each for each in _sweep() if _divides(each, problem.shape)]
    if not found:
        raise NoPeerError(f"no tile of JAX's example divides {problem}")
    return sorted(found, key=lambda e: -min(SM_90A.num_sms, e.ctas(problem.shape)))


def _sweep() -> Iterator[Example]:
    for tiles, clusters in (
        (_OWN_TILES, (None,)),
        (_OWN_TILES[:3], ("m", "n")),
        (_SMALL_TILES, (None, "m", "n")),
    ):
        for width, cluster, (tile_m, tile_n), wgs, minor in itertools.product(
            (8, 4, 16), clusters, tiles, "mn", "nm"
        ):
            yield Example(
                tile_m=tile_m,
                tile_n=tile_n,
                tile_k=64,
                max_concurrent_steps=4,
                grid_minor_dim=minor,
                grid_tile_width=width,
                wg_dimension=wgs,
                cluster_dimension=cluster,
            )


def _divides(example: Example, shape: tuple[int, int, int]) -> bool:
    m, n, k = shape
    rows, columns = example.cluster_tile
    fits = example.ring_bytes <= SM_90A.smem_bytes
    return fits and not (m % rows or n % columns or k % example.tile_k)


def function(example: Example) -> Callable[..., Any]:
    """Returns the shipped matmul at one configuration, as a function of A and B.

    Raises:
      NoPeerError: this JAX has no such file, or another one.
    """
    try:
        from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as shipped
    except ImportError as error:
        raise NoPeerError(f"JAX's example cannot be imported: {error}") from None
    fields = dataclasses.asdict(example)
    try:
        for name in ("grid_minor_dim", "wg_dimension", "cluster_dimension"):
            if fields[name] is not None:
                fields[name] = shipped.MatmulDimension(_AXES[fields[name]])
        config = shipped.TuningConfig(**fields)
        return functools.partial(_call, shipped.matmul, config)
    except (AttributeError, TypeError, ValueError) as error:
        raise NoPeerError(f"JAX's example is not as it was: {error}") from None


def _call(matmul: Callable[..., Any], config: Any, a: Any, b: Any) -> Any:
    return matmul(a, b, None, config)

"""How long a candidate should take: a sum of terms, each with its reason.

The model orders candidates, so that the search meets the fast ones early. It does not
replace a measurement: it knows of no bank conflicts, and of the clock only that a chip
that is busy for long is slower. Rates were measured on one NVIDIA H200, or follow from
its data sheet.
"""

import dataclasses
import math

from kgen.tune.site import Shape

NUM_SMS = 132
# A chip that multiplies for more than a moment is limited by its power.
CLOCK_GHZ, SUSTAINED_CLOCK_GHZ = 1.9, 1.7
SUSTAINED_AFTER_US = 60.0
# wgmma of 16-bit operands, dense; wider ones take as many times longer.
FLOPS_PER_CYCLE = 4096
SMEM_BYTES_PER_CYCLE = 128
L2_BYTES_PER_CYCLE = 80.0  # Of one SM while all of them load.
HBM_BYTES_PER_US = 4.3e6
L2_BYTES = 50e6
# From a copy's issue until its bytes are in SMEM, with all SMs loading.
LATENCY_CYCLES = 1500
LAUNCH_US = 1.0
CTA_START_CYCLES = 900  # Barriers, tensor maps, registers.
# At the end of a step: waiting for the oldest wgmma, or for all of them.
STEP_CYCLES, DRAIN_CYCLES = 24, 20
STORE_CYCLES = 500
# Of an SM: a sum that is promoted is multiplied and added outside of the tensor cores.
FLOATS_PER_CYCLE = 128
# CTAs of a cluster wait for each other; those along n need the longer way round.
CLUSTER_M_CYCLES, CLUSTER_N_CYCLES = 40, 150
SM_SMEM_BYTES = 233_472
# Power of the mean by which times that overlap add up.
OVERLAP = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What the model knows of a candidate at a shape.

    Attributes:
      shape: (m, n, k).
      tile: (m, n, k) of one CTA.
      stages: Slots of the ring.
      compute_wgs: Warpgroups that multiply.
      wg_tile: (m, n) of one warpgroup's part of the tile.
      itemsize: Bytes of an element of A or B.
      out_itemsize: Bytes of an element of the result.
      smem_bytes: SMEM of one CTA.
      in_flight: wgmma operations that may run on when a step ends.
      persistent: Whether one CTA works through many tiles.
      ping_pong: Whether its warpgroups take turns, a whole tile each.
      split_k: Parts of K.
      swapped: Whether the transposed product is computed.
      cluster: CTAs that share loads, along (m, n).
      raster: The dimension along which bands are wide, and how wide; None if the grid
        is walked row by row.
      matrices: Products of this shape that are computed: of a batch.
      weights: Matrices like B that A is multiplied with, each into a sum of its own.
      promoted: Whether the sum of every step is added to one in registers.
    """

    shape: Shape
    tile: Shape
    stages: int
    compute_wgs: int
    wg_tile: tuple[int, int]
    itemsize: int = 2
    out_itemsize: int = 2
    smem_bytes: int = SM_SMEM_BYTES
    in_flight: int = 1
    persistent: bool = False
    ping_pong: bool = False
    split_k: int = 1
    swapped: bool = False
    cluster: tuple[int, int] = (1, 1)
    raster: tuple[str, int] | None = None
    matrices: int = 1
    weights: int = 1
    promoted: bool = False

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along m and n of one matrix."""
        (m, n, _), (tile_m, tile_n, _) = self.shape, self.tile
        return -(-m // tile_m), -(-n // tile_n)

    @property
    def tiles(self) -> int:
        """Tiles that are computed, each part of K counted."""
        return math.prod(self.grid) * self.split_k * self.matrices

    @property
    def steps(self) -> int:
        """Steps of K of one tile."""
        return -(-self.shape[2] // (self.tile[2] * self.split_k))

    @property
    def step_bytes(self) -> int:
        """Bytes of A and B that one step puts into SMEM."""
        tile_m, tile_n, tile_k = self.tile
        return (tile_m + self.weights * tile_n) * tile_k * self.itemsize

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that fit on one SM at once, by their SMEM and registers."""
        by_smem = SM_SMEM_BYTES // (self.smem_bytes + 1024)
        # A compute warpgroup takes what its accumulator needs, and as much again.
        return max(1, min(by_smem, 4 // (self.compute_wgs + 1) + 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Term:
    """One part of the predicted time.

    Attributes:
      name: What it is called.
      us: Microseconds.
      why: How it comes about, with its figures.
    """

    name: str
    us: float
    why: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """A prediction.

    Attributes:
      us: Microseconds of one call.
      terms: What it is made of. Loads and products overlap, so that `us` is less than
        the sum.
    """

    us: float
    terms: tuple[Term, ...]


def predict(figures: Figures) -> Cost:
    """Returns how long a candidate should take."""
    clock = _clock(figures)
    sharing = min(figures.ctas_per_sm, -(-figures.tiles // NUM_SMS))
    busiest = _tiles_of_busiest_sm(figures)
    rounds = -(-busiest // sharing)
    tensor = _cycles_of_products(figures) * busiest / clock / 1e3
    smem = _cycles_of_smem(figures) * busiest / clock / 1e3
    l2 = _cycles_of_loads(figures, sharing) * busiest / clock / 1e3
    gmem = _bytes_of_gmem(figures) / HBM_BYTES_PER_US
    begins = 1 if figures.persistent else rounds
    start = begins * (CTA_START_CYCLES + LATENCY_CYCLES) / clock / 1e3
    # Of two warpgroups in turns, one multiplies while the other stores.
    stores = 1 if figures.ping_pong else rounds * sharing
    store = _cycles_of_store(figures) * stores / clock / 1e3
    # With two CTAs on an SM, one multiplies while the other begins or ends.
    exposed = 1.0 if sharing == 1 else 1 / sharing
    overlapped = _longest(tensor, smem, l2, gmem)
    reduction = _reduction_us(figures)
    terms = (
        Term(name="launch", us=LAUNCH_US, why="one kernel"),
        Term(
            name="products",
            us=tensor,
            why=f"{busiest} tiles on the busiest SM, {figures.steps} steps each",
        ),
        Term(name="SMEM", us=smem, why="operands read by wgmma and written by TMA"),
        Term(
            name="loads",
            us=l2,
            why=f"{figures.step_bytes} bytes a step through L2,"
            f" {figures.stages} steps in flight",
        ),
        Term(name="GMEM", us=gmem, why=f"{_bytes_of_gmem(figures) / 1e6:.0f} MB"),
        Term(name="start", us=start * exposed, why=f"{begins} times a CTA begins"),
        Term(name="store", us=store * exposed, why=f"{rounds} rounds of results"),
        Term(
            name="reduction",
            us=reduction,
            why=f"{figures.split_k} partial sums are added",
        ),
    )
    us = LAUNCH_US + overlapped + (start + store) * exposed + reduction
    return Cost(us=us, terms=terms)


def _clock(figures: Figures) -> float:
    """Returns GHz: less for a long run of products."""
    m, n, k = figures.shape
    products = figures.matrices * figures.weights
    flops = 2.0 * products * m * n * k * figures.itemsize / 2
    us = flops / (NUM_SMS * FLOPS_PER_CYCLE * CLOCK_GHZ * 1e3)
    return SUSTAINED_CLOCK_GHZ if us > SUSTAINED_AFTER_US else CLOCK_GHZ


def _tiles_of_busiest_sm(figures: Figures) -> int:
    """Returns the tiles that the SM with the most work computes.

    Clusters occupy neighbouring SMs, of which the chip has fewer than half as many
    pairs: some SMs find no partner.
    """
    size = math.prod(figures.cluster)
    return -(-(figures.tiles // size) // (NUM_SMS // size))


def _cycles_of_products(figures: Figures) -> float:
    """Returns the cycles in which one tile is multiplied."""
    tile_m, tile_n, tile_k = figures.tile
    rows, columns = (tile_n, tile_m) if figures.swapped else (tile_m, tile_n)
    # wgmma works on 64 rows; what is narrow still takes a while.
    flops = 2 * figures.weights * max(rows, 64) * max(columns, 32) * tile_k
    per_step = flops * figures.itemsize / 2 / FLOPS_PER_CYCLE
    waits = STEP_CYCLES if figures.in_flight else DRAIN_CYCLES / figures.compute_wgs
    if figures.promoted:
        waits += 2 * tile_m * tile_n / FLOATS_PER_CYCLE
    along_m, along_n = figures.cluster
    waits += CLUSTER_M_CYCLES * (along_m > 1) + CLUSTER_N_CYCLES * (along_n > 1)
    return figures.steps * (per_step + waits)


def _cycles_of_smem(figures: Figures) -> float:
    """Returns the cycles in which SMEM is read and written for one tile."""
    wg_m, wg_n = figures.wg_tile
    rows, columns = (wg_n, wg_m) if figures.swapped else (wg_m, wg_n)
    # Every 64 rows read all the columns again.
    readers = 1 if figures.ping_pong else figures.compute_wgs
    per_k = readers * -(-rows // 64) * (64 + columns) * figures.itemsize
    read = figures.weights * per_k * figures.tile[2]
    return figures.steps * (read + figures.step_bytes) / SMEM_BYTES_PER_CYCLE


def _cycles_of_loads(figures: Figures, sharing: int) -> float:
    """Returns the cycles in which one tile's operands arrive, by rate or by latency."""
    tile_m, tile_n, tile_k = figures.tile
    # What a cluster shares comes through L2 once.
    columns = figures.weights * tile_n
    shared = tile_m / figures.cluster[1] + columns / figures.cluster[0]
    by_rate = shared * tile_k * figures.itemsize / L2_BYTES_PER_CYCLE
    ahead = max(1, figures.stages - 1 - figures.in_flight) * sharing
    by_latency = LATENCY_CYCLES / ahead
    return figures.steps * max(by_rate, by_latency)


def _bytes_of_gmem(figures: Figures) -> float:
    """Returns the bytes that come from GMEM or go there.

    Tiles that are computed at the same time share what they load; what one wave leaves
    in L2, the next may find there if all operands fit.
    """
    m, n, k = figures.shape
    stored = m * n * figures.out_itemsize
    least = (m + figures.weights * n) * k * figures.itemsize
    if least <= L2_BYTES:
        return figures.matrices * (least + stored)
    rows, columns = _region(figures)
    waves = max(1.0, figures.tiles / figures.matrices / NUM_SMS)
    across = columns * figures.weights * figures.tile[1]
    loaded = waves * (rows * figures.tile[0] + across) * k
    of_one = max(least, loaded / figures.split_k * figures.itemsize) + stored
    return figures.matrices * of_one


def _region(figures: Figures) -> tuple[float, float]:
    """Returns rows and columns of the tiles that are computed at the same time."""
    grid = figures.grid
    together = min(NUM_SMS, math.prod(grid))
    order, width = figures.raster or ("m", 1)
    along = "mn".index(order)
    wide = float(min(width, grid[along]))
    long = min(together / wide, grid[1 - along])
    # A band that ends early goes on in the next one.
    wide = min(together / long, grid[along])
    return (wide, long) if along == 0 else (long, wide)


def _cycles_of_store(figures: Figures) -> float:
    """Returns the cycles between the last product of a tile and its store."""
    tile_m, tile_n, _ = figures.tile
    size = 4 if figures.split_k > 1 else figures.out_itemsize
    return STORE_CYCLES + 2 * tile_m * tile_n * size / SMEM_BYTES_PER_CYCLE


def _reduction_us(figures: Figures) -> float:
    """Returns the time in which partial sums are stored and added."""
    if figures.split_k == 1:
        return 0.0
    m, n, _ = figures.shape
    partial = figures.split_k * figures.matrices * m * n * 4
    # Small ones stay in L2, which is about as fast again.
    rate = HBM_BYTES_PER_US * (2 if partial < L2_BYTES / 2 else 1)
    return LAUNCH_US + 2 * partial / rate


def _longest(*us: float) -> float:
    """Returns about the longest of times that overlap, but never quite."""
    return float(sum(each**OVERLAP for each in us) ** (1 / OVERLAP))

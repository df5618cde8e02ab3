"""KG4xx on a traced kernel: SMEM, registers, threads and clusters."""

import math
from collections.abc import Iterator

from kgen.registers import (
    MAX_MAXNREG,
    MAXNREG_STEP,
    MIN_MAXNREG,
    OTHER_REGISTERS,
    REGISTER_BITS,
    WARPGROUP_THREADS,
    launch_registers,
    wgmma_registers,
)
from kgen.verify.static.facts import ACCUMULATOR, Allocation, Kernel
from kgen.verify.static.rules.base import Finding, rule, traced

CUDA = "CUDA C++ Programming Guide, compute capability 9.0"
PORTABLE_CLUSTER = 8
MAX_GRID_X = 2**31 - 1


@traced("KG401")
def smem(kernel: Kernel) -> Iterator[Finding]:
    if kernel.smem_bytes > kernel.arch.smem_bytes:
        yield Finding(
            kernel.place,
            f"the CTA needs {kernel.smem_bytes:,} bytes of SMEM",
            f"at most {kernel.arch.smem_bytes:,} bytes",
            "fewer slots or smaller tiles; see `kgen rule KG401`",
        )


@traced("KG402")
def accumulator_registers(kernel: Kernel) -> Iterator[Finding]:
    for ref in kernel.allocations:
        if ref.space != ACCUMULATOR:
            continue
        limit = min(_registers(kernel, thread) for thread in ref.threads)
        limit = min(limit, kernel.arch.max_registers_per_thread)
        estimate = ref.registers + OTHER_REGISTERS
        if estimate > limit:
            yield Finding(
                ref.place,
                f"{_accumulators(ref)} {ref.registers} registers per thread, about"
                f" {estimate} with all else",
                f"at most {limit} registers",
                "make the tile smaller, or split it between more warpgroups",
            )


def _accumulators(ref: Allocation) -> str:
    shape = " x ".join(map(str, ref.shape))
    alone = math.prod(ref.shape) * ref.bits // (WARPGROUP_THREADS * REGISTER_BITS)
    if ref.registers > alone:
        return f"this accumulator of {shape} and those around it take"
    return f"the accumulator of {shape} takes"


@traced("KG403")
def max_registers(kernel: Kernel) -> Iterator[Finding]:
    for change in kernel.registers:
        if not MIN_MAXNREG <= change.count <= MAX_MAXNREG:
            yield Finding(
                change.place,
                f"setmaxnreg asks for {change.count} registers",
                f"multiples of {MAXNREG_STEP} from {MIN_MAXNREG} to {MAX_MAXNREG}",
            )


@traced("KG404")
def register_shares(kernel: Kernel) -> Iterator[Finding]:
    if not kernel.registers:
        return
    counts = [_registers(kernel, thread) for thread in range(kernel.num_threads)]
    total = sum(counts) * WARPGROUP_THREADS
    if total > kernel.arch.registers_per_sm:
        yield Finding(
            kernel.registers[-1].place,
            f"warpgroups of {', '.join(map(str, counts))} registers per thread take"
            f" {total:,} registers",
            f"at most {kernel.arch.registers_per_sm:,}",
        )


def _registers(kernel: Kernel, thread: int) -> int:
    """Returns the registers that a thread of a warpgroup has once it has changed them."""
    counts = [c.count for c in kernel.registers if thread in c.threads]
    return min(counts, default=launch_registers(kernel.arch, kernel.num_threads))


@traced("KG405")
def one_wgmma(kernel: Kernel) -> Iterator[Finding]:
    available = launch_registers(kernel.arch, kernel.num_threads)
    for product in kernel.wgmmas:
        needed = wgmma_registers(product.n)
        if product.accumulator == "float32" and needed > available:
            yield Finding(
                product.place,
                f"one wgmma of {product.n} columns takes {needed} registers per"
                " thread, more than the CTA starts with",
                f"at most {available} registers",
                "make n smaller, or use fewer warpgroups; see `kgen rule KG405`",
            )


@rule(
    "KG406",
    title="A cluster has 1, 2, 4 or 8 CTAs",
    reason="More than 8 are not portable among GPUs: 16 ran right on one H200, others may"
    " refuse it. Upstream lowers 3 without complaint and aborts the process later.",
    source="CUDA C++ Programming Guide, Thread Block Clusters; reproduced",
    bad='plgpu.kernel(body, cluster=(3,), cluster_names=("c",), ...)',
    good='plgpu.kernel(body, cluster=(2,), cluster_names=("c",), ...)',
)
def cluster(kernel: Kernel) -> Iterator[Finding]:
    size = math.prod(kernel.cluster)
    if size not in (1, 2, 4, PORTABLE_CLUSTER):
        yield Finding(
            kernel.place,
            f"a cluster of {_sizes(kernel.cluster)} has {size} CTAs",
            "1, 2, 4, 8",
        )


@rule(
    "KG407",
    title="A grid has at least one CTA and no more than CUDA launches",
    reason="A launch of nothing fails, and so does one of more than 65,535 CTAs along"
    " the second or third dimension from the right. Upstream lowers either without"
    " complaint. Beyond three dimensions, all but the last two count as one.",
    source=CUDA + "; reproduced on a CPU",
    bad='plgpu.kernel(body, grid=(m // 128, 8), grid_names=("m", "n"), ...)'
    "  # m = 100",
    good='plgpu.kernel(body, grid=(m // 128, 8), grid_names=("m", "n"), ...)'
    "  # m = 256",
)
def grid(kernel: Kernel) -> Iterator[Finding]:
    if 0 in (*kernel.grid, *kernel.cluster):
        yield Finding(
            kernel.place,
            f"the grid of {_sizes((*kernel.grid, *kernel.cluster))} has no CTA",
            "at least 1 along each dimension",
        )
    y_and_z = kernel.arch.max_grid_yz
    limits = (y_and_z, y_and_z, MAX_GRID_X)
    for count, limit in zip(_launched(kernel), limits, strict=True):
        if count > limit:
            yield Finding(
                kernel.place,
                f"the grid of {_sizes(kernel.grid)} has {count:,} CTAs along one"
                " dimension",
                f"at most {limit:,}",
                "put the longest dimension last; see `kgen rule KG407`",
            )


def _launched(kernel: Kernel) -> tuple[int, int, int]:
    """Returns the CTAs along CUDA's z, y and x."""
    *outer, y, x = (1, 1, *kernel.grid)
    clusters = (1, 1, 1, *kernel.cluster)[-3:]
    return (
        math.prod(outer) * clusters[0],
        y * clusters[1],
        x * clusters[2],
    )


@rule(
    "KG408",
    title="A CTA has at most 1,024 threads",
    reason="That is 8 warpgroups, which Pallas calls threads. Upstream takes up to 16.",
    source=CUDA + "; reproduced on a CPU",
    bad='plgpu.kernel(body, num_threads=9, thread_name="wg", ...)',
    good='plgpu.kernel(body, num_threads=3, thread_name="wg", ...)',
)
def threads(kernel: Kernel) -> Iterator[Finding]:
    count = kernel.num_threads * WARPGROUP_THREADS
    if count > kernel.arch.max_threads:
        yield Finding(
            kernel.place,
            f"num_threads = {kernel.num_threads} warpgroups are {count:,} threads",
            f"at most {kernel.arch.max_threads // WARPGROUP_THREADS} warpgroups",
        )


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, sizes))})"

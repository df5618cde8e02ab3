"""KG62x: clusters, persistent and ping-pong kernels, split K and swapped operands."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgen.float8 import FLOAT8
from kgen.plan.legality.base import Finding, rule
from kgen.spec.wording import write_value

if TYPE_CHECKING:
    from kgen.plan.candidate import Candidate

WS = "[schedule]\nwarp_specialized = true\n"
WGMMA_M = 64
PING_PONG_WGS = 2


@rule(
    "KG620",
    title="A cluster has neighbours along one dimension",
    reason="Two CTAs share the tiles of one operand. Along both dimensions at once "
    "every copy would go to some of the cluster's CTAs alone.",
    source="kgen",
    bad=WS + "[cluster]\nm = 2\nn = 2",
    good=WS + "[cluster]\nm = 2",
)
def one_dimension(candidate: "Candidate") -> Iterator[Finding]:
    cluster = candidate.spec.cluster
    if cluster.m > 1 and cluster.n > 1:
        yield Finding(
            "cluster.n", f"cluster.n = {cluster.n} with cluster.m = {cluster.m}", "1"
        )


@rule(
    "KG621",
    title="K is not split in a persistent kernel",
    reason="K is split where there are fewer output tiles than SMs; a persistent "
    "kernel is for more tiles than SMs.",
    source="kgen",
    bad=WS + "persistent = true\nsplit_k = 2",
    good=WS + "split_k = 2",
)
def split_or_persistent(candidate: "Candidate") -> Iterator[Finding]:
    schedule = candidate.spec.schedule
    if schedule.persistent and schedule.split_k:
        yield Finding(
            "schedule.split_k",
            f"split_k = {schedule.split_k} with persistent = true",
            "one of the two",
        )


@rule(
    "KG622",
    title="With swapped operands warpgroups split n",
    reason="n is then M of wgmma, of which every warpgroup takes 64 rows or more; m is "
    "small.",
    source="kgen",
    bad=WS + 'swap_operands = true\nnum_compute_wgs = 2\nsplit = "m"',
    good=WS + 'swap_operands = true\nnum_compute_wgs = 2\nsplit = "n"',
)
def swapped_split(candidate: "Candidate") -> Iterator[Finding]:
    split_m = candidate.split == "m" and candidate.num_compute_wgs > 1
    if candidate.swap_operands and split_m:
        yield Finding("schedule.split", 'split = "m" with swap_operands = true', '"n"')


@rule(
    "KG623",
    title="With swapped operands pieces of the output are a multiple of 64 columns",
    reason="They are rows of the accumulator, which lies in registers in groups of 64.",
    source="Mosaic GPU, WGMMA layout; reproduced on a CPU",
    bad=WS + "swap_operands = true\n[store]\nn = 32",
    good=WS + "swap_operands = true\n[store]\nn = 64",
)
def swapped_pieces(candidate: "Candidate") -> Iterator[Finding]:
    n = candidate.store_n
    if candidate.swap_operands and n % WGMMA_M:
        yield Finding(
            "store.n" if candidate.spec.store.n != "auto" else "tile.n",
            f"store.n = {n} is not a multiple of {WGMMA_M}",
            f"multiples of {WGMMA_M} that divide {candidate.wg_n}",
            follows=("tile.n",),
        )


@rule(
    "KG624",
    title="Operands are swapped if both have 8 or 16 bits",
    reason="A tile of B becomes the first operand of wgmma, and what is stored is "
    "turned around in registers, which was not tried for float32 operands.",
    source="Mosaic GPU, wgmma",
    bad=WS + "swap_operands = true\n"
    '[kernel]\nlayout = "nt"\n[dtypes]\na = "float32"\nb = "float32"',
    good=WS + "swap_operands = true",
)
def swapped_dtypes(candidate: "Candidate") -> Iterator[Finding]:
    if candidate.swap_operands and candidate.itemsize > 2:
        yield Finding(
            "schedule.swap_operands",
            f"swap_operands = true with {candidate.spec.dtypes.a}",
            ", ".join(("float16", "bfloat16", *FLOAT8)),
        )


@rule(
    "KG625",
    title="Two warpgroups of a persistent kernel play ping-pong",
    reason="They take turns, a whole tile each: there must be a next tile, and a "
    "tile is not split between them. The ring of such a kernel belongs to one CTA.",
    source="kgen",
    bad=WS + "ping_pong = true",
    good=WS + "persistent = true\nping_pong = true",
)
def ping_pong(candidate: "Candidate") -> Iterator[Finding]:
    schedule, cluster = candidate.spec.schedule, candidate.spec.cluster
    if not (schedule.ping_pong and schedule.warp_specialized):
        return
    needed = {
        "schedule.persistent": (schedule.persistent, True),
        "schedule.num_compute_wgs": (candidate.num_compute_wgs, PING_PONG_WGS),
        "schedule.split": (schedule.split, None),
        "schedule.swap_operands": (schedule.swap_operands, False),
        "cluster.m": (cluster.m, 1),
        "cluster.n": (cluster.n, 1),
    }
    for key, (found, allowed) in needed.items():
        if found != allowed:
            yield Finding(
                key,
                f"{key} = {write_value(found)} with ping_pong = true",
                "without this key" if allowed is None else write_value(allowed),
            )


@rule(
    "KG626",
    title="A ping-pong kernel keeps one wgmma in flight",
    reason="A single warpgroup multiplies at a time: with none in flight the tensor "
    "cores wait for it between two steps. Its slots are released by the kernel itself, "
    "one step later.",
    source="kgen",
    bad=WS + "persistent = true\nping_pong = true\n[pipeline]\nwgmma_in_flight = 0",
    good=WS + "persistent = true\nping_pong = true\n[pipeline]\nwgmma_in_flight = 1",
)
def one_in_flight(candidate: "Candidate") -> Iterator[Finding]:
    for key in ("wgmma_in_flight", "delay_release"):
        steps = getattr(candidate, key)
        if candidate.ping_pong and steps != 1:
            yield Finding(
                f"pipeline.{key}", f"{key} = {steps} with ping_pong = true", "1"
            )

"""The figures of a plan, as plain values under stable keys.

A key that ends in a unit tells it: `_bytes`, `_us`, `_per_s`, `_ratio` (of one).
`kgen.explain.fields` says what each key means, in the same order.
"""

import math
from typing import Any

from kgen.arch import ARCHS, Arch
from kgen.epilogue.steps import write
from kgen.explain.shape import Shape, check_shape
from kgen.explain.widest import why_swizzle
from kgen.plan.model import Layout, MatmulPlan
from kgen.registers import WARPGROUP_THREADS
from kgen.roofline import (
    SM_LIMITS,
    Occupancy,
    Waves,
    Work,
    matmul_work,
    occupancy,
    roofline,
    round_up,
)

type Group = dict[str, Any]

# What the module of an operation calls its factors.
_OPERANDS = {"matmul": ("a", "b"), "glu": ("x", "w_gate", "w_up")}


def explain(
    plan: MatmulPlan, shape: Shape, batch: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Returns every figure of `plan` for `shape`, which is (m, n, k).

    Args:
      plan: The plan.
      shape: Sizes of one matrix.
      batch: Leading dimensions of A, B and the result.

    Raises:
      UsageError: the kernel cannot do that.
    """
    check_shape(plan, shape, batch)
    matrices = math.prod(batch)
    arch = ARCHS[plan.arch]
    resident = _occupancy(plan, arch)
    waves = _waves(plan, arch, resident, shape, matrices)
    of_one = matmul_work(
        shape,
        (plan.tile_m, plan.tile_n),
        operand_dtype=plan.operand_dtype,
        out_dtype=plan.out_dtype,
        weights=plan.weights,
    )
    work = of_one.times(matrices)
    return {
        "kernel": _kernel(plan),
        "tile": _tile(plan),
        "pipeline": _pipeline(plan),
        "layouts": _layouts(plan),
        "smem": _smem(plan),
        "registers": _registers(plan),
        "occupancy": {
            "ctas_per_sm": resident.ctas_per_sm,
            "by_smem": resident.by_smem,
            "by_registers": resident.by_registers,
            "by_threads": resident.by_threads,
        },
        "shape": _shape(plan, shape, batch, waves, work),
        "roofline": _roofline(plan, arch, waves, work),
    }


def _kernel(plan: MatmulPlan) -> Group:
    return {
        "name": plan.name,
        "op": plan.op,
        "a_dtype": plan.operand_dtype,
        "b_dtype": plan.b_dtype,
        "out_dtype": plan.out_dtype,
        "accumulator_dtype": "float32",
        "layout": plan.layout,
        "out_order": plan.out_order,
        "arch": plan.arch,
        "schedule": plan.schedule,
        "persistent": plan.persistent,
        "ping_pong": plan.ping_pong,
        "raster_order": plan.raster and plan.raster.order,
        "raster_width": plan.raster and plan.raster.width,
        "cluster_m": plan.cluster_m,
        "cluster_n": plan.cluster_n,
        "split_k": plan.split_k,
        "swap_operands": plan.swap_operands,
        "edge": plan.edge,
        "epilogue": [write(step) for step in plan.epilogue],
        "activation": plan.activation or None,
        "entry_point": "pallas_call" if plan.schedule == "pallas_call" else "kernel",
        "spec_file": plan.spec_path,
        "spec_digest": plan.spec_digest,
        "allowed_rules": list(plan.allow),
    }


def _tile(plan: MatmulPlan) -> Group:
    return {
        "m": plan.tile_m,
        "n": plan.tile_n,
        "k": plan.tile_k,
        "num_warpgroups": plan.num_warpgroups,
        "num_compute_wgs": plan.num_compute_wgs,
        "threads_per_cta": plan.num_warpgroups * WARPGROUP_THREADS,
        "split": plan.split if plan.num_compute_wgs > 1 else None,
        "wg_m": plan.wg_m,
        "wg_n": plan.wg_n,
    }


def _pipeline(plan: MatmulPlan) -> Group:
    return {
        "max_concurrent_steps": plan.max_concurrent_steps,
        "delay_release_steps": plan.delay_release,
        "wgmma_in_flight": plan.wgmma_in_flight,
        "promoted_every": plan.tile_k if plan.promote else None,
        "scale_block": plan.scale_block,
        "gate_first": plan.gate_first,
        "store_m": plan.store_m,
        "store_n": plan.store_n,
        "store_slots": plan.store_slots,
    }


def _layouts(plan: MatmulPlan) -> list[Group]:
    def entry(operand: str, layout: Layout) -> Group:
        return {
            "operand": operand,
            "swizzle_bytes": layout.swizzle,
            "tiling": None if layout.tiling is None else list(layout.tiling),
            "reason": why_swizzle(plan, operand, layout),
        }

    operands = [entry(name, plan.operand_layout) for name in _OPERANDS[plan.op]]
    return [*operands, entry("out", plan.out_layout)]


def _smem(plan: MatmulPlan) -> Group:
    return {
        "limit_bytes": plan.smem.limit,
        "total_bytes": plan.smem.total,
        "free_bytes": plan.smem.limit - plan.smem.total,
        "used_ratio": plan.smem.total / plan.smem.limit,
        "buffers": [
            {
                "name": buffer.name,
                "shape": list(buffer.shape),
                "dtype": buffer.dtype,
                "slots": buffer.slots,
                "bytes": buffer.bytes,
            }
            for buffer in plan.smem.buffers
        ],
    }


def _registers(plan: MatmulPlan) -> Group:
    return {
        "accumulator_per_thread": plan.registers.accumulator,
        "other_per_thread": plan.registers.other,
        "estimate_per_thread": plan.registers.estimate,
        "compute_limit_per_thread": plan.registers.compute_limit,
        "memory_limit_per_thread": plan.registers.memory_limit,
        "per_cta": registers_per_cta(plan),
    }


def registers_per_cta(plan: MatmulPlan) -> int:
    """Returns the registers that one CTA holds.

    A warp-specialised kernel holds what setmaxnreg gave out; another one what its
    threads need, which is an estimate.
    """
    unit = SM_LIMITS[plan.arch].register_unit
    if plan.registers.memory_limit is None:
        per_threads = round_up(plan.registers.estimate, unit) * plan.num_warpgroups
    else:
        compute = round_up(plan.registers.compute_limit, unit) * plan.num_compute_wgs
        per_threads = compute + plan.registers.memory_limit
    return per_threads * WARPGROUP_THREADS


def _occupancy(plan: MatmulPlan, arch: Arch) -> Occupancy:
    return occupancy(
        arch,
        smem_bytes=plan.smem.total,
        registers_per_cta=registers_per_cta(plan),
        threads=plan.num_warpgroups * WARPGROUP_THREADS,
    )


def _waves(
    plan: MatmulPlan, arch: Arch, resident: Occupancy, shape: Shape, matrices: int
) -> Waves:
    rows, columns = plan.grid(shape[0], shape[1])
    return Waves(
        ctas=rows * columns * plan.split_k * matrices,
        slots=arch.num_sms * resident.ctas_per_sm,
        num_sms=arch.num_sms,
    )


def _shape(
    plan: MatmulPlan, shape: Shape, batch: tuple[int, ...], waves: Waves, work: Work
) -> Group:
    m, n, k = shape
    steps = plan.steps(k)
    return {
        "m": m,
        "n": n,
        "k": k,
        "batch": list(batch),
        "grid": list(plan.grid(m, n)),
        "ctas": waves.ctas,
        "cta_slots": waves.slots,
        "waves": waves.waves,
        "tail_efficiency_ratio": waves.tail_efficiency,
        "steps": steps,
        "concurrent_steps": min(plan.max_concurrent_steps, steps),
        "flops": work.flops,
        "minimal_bytes": work.minimal_bytes,
        "uncached_bytes": work.uncached_bytes,
        "intensity_flops_per_byte": work.intensity,
        "uncached_intensity_flops_per_byte": work.uncached_intensity,
    }


def _roofline(plan: MatmulPlan, arch: Arch, waves: Waves, work: Work) -> Group:
    times = roofline(arch, work, waves, plan.operand_dtype)
    return {
        "device": arch.device,
        "num_sms": arch.num_sms,
        "peak_flops_per_s": arch.flops_per_s[plan.operand_dtype],
        "peak_source": "data sheet, dense",
        "hbm_bytes_per_s": arch.hbm_bytes_per_s,
        "hbm_source": "measured with a large copy",
        "compute_us": times.compute_us,
        "memory_us": times.memory_us,
        "bound": times.bound,
        "roofline_us": times.roofline_us,
        "tiles_of_busiest_sm": waves.tiles_of_busiest_sm,
        "quantised_us": times.quantised_us,
    }

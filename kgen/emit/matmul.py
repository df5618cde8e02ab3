"""What the matmul templates place: words, literals and named booleans of a plan."""

from kgen.arch import ARCHS
from kgen.emit import (
    batches,
    call,
    edges,
    epilogue,
    gmem,
    gradients,
    matmul_test,
    operands,
    order,
    output,
    returned,
    schedule,
    store,
    tensors,
    terms,
)
from kgen.emit.literals import docstring_text
from kgen.layouts import COLUMN
from kgen.plan.dispatch import DispatchPlan
from kgen.plan.model import Layout, MatmulPlan

JAX_RANGE = ">= 0.11.2, < 0.13"
JAX_OLDEST = (0, 11, 2)
JAX_FIRST = "0.11.2 or newer"


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values of the templates `matmul` and `test_matmul`."""
    arch = ARCHS[plan.arch]
    return {
        "name": plan.name,
        "doc": docstring_text(plan.doc if plan.doc.strip() else _formula(plan)),
        "overview": docstring_text(schedule.overview(plan)),
        "arch": f"{arch.title} GPUs ({arch.name})",
        "compute_capability": arch.compute_capability,
        "max_ctas_m": f"{arch.max_grid_yz:_}",
        "num_sms": arch.num_sms,
        "jax_range": JAX_RANGE,
        "jax_oldest": JAX_OLDEST,
        "jax_first": JAX_FIRST,
        "dtype": plan.operand_dtype,
        **_operand_dtypes(plan),
        "out_dtype": plan.out_dtype,
        "has_own_out_dtype": output.has_own_dtype(plan),
        "result_dtype": _result_dtype(plan),
        "STORE_DTYPE": output.store_dtype(plan),
        "out_type": _out_type(plan),
        "cast": "" if plan.split_k > 1 or plan.epilogue else _cast(plan),
        "result": _result(plan),
        "operands_line": call.operands_line(plan, _units(plan)),
        "of_nothing": _of_nothing(plan),
        "block": store.turned(plan, f"acc[...]{_cast(plan)}"),
        "arithmetic": _arithmetic(plan),
        "reference": _reference(plan),
        "reference_is": _reference_is(plan),
        "tile_m": plan.tile_m,
        "tile_n": plan.tile_n,
        "tile_k": plan.tile_k,
        **operands.view(plan),
        **batches.view(plan),
        **edges.view(plan),
        **epilogue.view(plan),
        **returned.view(plan),
        **schedule.view(plan),
        **tensors.view(plan),
        **_pipeline(plan),
        **_layouts(plan),
        **matmul_test.view(plan),
        **gradients.view(plan),
        **terms.view(plan),
    }


def constants(plan: MatmulPlan) -> dict[str, object]:
    """Returns the constants that a template may place but not change."""
    return {
        "TILE_M": plan.tile_m,
        "TILE_N": plan.tile_n,
        "TILE_K": plan.tile_k,
        "MAX_CONCURRENT_STEPS": plan.max_concurrent_steps,
        "DELAY_RELEASE": plan.delay_release,
        "WGMMA_IN_FLIGHT": plan.wgmma_in_flight,
        "COMPUTE_WGS": plan.num_compute_wgs,
        "MEMORY_REGISTERS": plan.memory_registers,
        "CLUSTER": plan.cluster,
        "SPLIT_K": plan.split_k,
        "SCALE_BLOCK": plan.scale_block,
        "RASTER_WIDTH": plan.raster.width if plan.raster else None,
        "STORE_N": plan.store_n,
        "STORE_SLOTS": plan.store_slots,
        "GATE_FIRST": plan.gate_first,
        "STORE_M": plan.store_m,
    }


def _formula(plan: MatmulPlan) -> str:
    title = ARCHS[plan.arch].title
    return f"{returned.headline(plan)} in {dtypes(plan)} on {title}."


def dtypes(plan: MatmulPlan | DispatchPlan) -> str:
    """Returns the operands' dtypes in words."""
    if plan.b_dtype == plan.operand_dtype:
        return plan.operand_dtype
    return f"{plan.operand_dtype} and {plan.b_dtype}"


def _operand_dtypes(plan: MatmulPlan) -> dict[str, object]:
    """Returns B's dtype and how the operands' are checked."""
    if plan.b_dtype == plan.operand_dtype:
        return {
            "b_dtype": plan.b_dtype,
            "mixes_dtypes": False,
            "each_operand": 'for name, operand in (("a", a), ("b", b)):',
            "its_dtype": "DTYPE",
            "dtype_needed": plan.operand_dtype,
        }
    return {
        "b_dtype": plan.b_dtype,
        "mixes_dtypes": True,
        "each_operand": 'for name, operand, dtype in (("a", a, DTYPE), ("b", b, B_DTYPE)):',
        "its_dtype": "dtype",
        "dtype_needed": "{jnp.dtype(dtype)}",
    }


def _arithmetic(plan: MatmulPlan) -> str:
    if plan.operand_dtype == "float32":
        return "multiplied as tf32, accumulated in float32"
    if plan.promote:
        return f"accumulated in float32, promoted every {plan.tile_k} of k"
    return "accumulated in float32"


def _out_type(plan: MatmulPlan) -> str:
    dtype = output.store_dtype(plan)
    one = f"jax.ShapeDtypeStruct({edges.out_shape(plan, dtype)}, {dtype})"
    if plan.differentiates_epilogue:
        return f"(({one},) * num_outputs,)"
    outputs = len(gmem.outputs(plan))
    return one if outputs == 1 else f"({one},) * {outputs}"


def _result_dtype(plan: MatmulPlan) -> str:
    """Returns the result's dtype as a standalone test names it."""
    name = output.dtype(plan)
    return name if name.startswith("jnp.") else f"module.{name}"


def _result(plan: MatmulPlan) -> str:
    """Returns what the module's function returns."""
    if not plan.epilogue:
        return edges.result(plan, _cast(plan) if plan.split_k > 1 else "")
    called = call.of_kernel(plan, _units(plan))
    if plan.differentiates_epilogue:
        return f"{called}[0]"
    cut = edges.cut(plan)
    if plan.split_k > 1:
        return epilogue.chain(plan, f"{called}.sum(axis=0){cut}")
    if (cut or plan.batched) and len(gmem.outputs(plan)) > 1:
        one = batches.reshaped(plan, f"each{cut}")
        return f"tuple({one} for each in {called})"
    return batches.reshaped(plan, f"{called}{cut}")


def _units(plan: MatmulPlan) -> dict[str, str]:
    """Returns what a kernel reads at once along m and n, as source."""
    m, n, _ = order.blocks(plan)
    return {"m": m, "n": n}


def _of_nothing(plan: MatmulPlan) -> str:
    """Returns the result where there are no elements, or no terms of a sum."""
    shape = batches.in_batch(plan, operands.out_dims(plan, "m", "n"), "*batch")
    if plan.epilogue:
        return epilogue.chain(plan, f"jnp.zeros({shape}, jnp.float32)")
    return f"jnp.zeros({shape}, {output.dtype(plan)})"


def _reference(plan: MatmulPlan) -> str:
    """Returns the product in plain JAX, with its epilogue."""
    if plan.epilogue:
        return epilogue.chain(plan, _product(plan))
    turned = ".T" if plan.out_order == COLUMN else ""
    return f"{_product(plan)}{batches.turned(plan, turned)}{_cast(plan)}"


def _product(plan: MatmulPlan) -> str:
    how = "preferred_element_type=jnp.float32"
    if plan.operand_dtype == "float32" or plan.scale_block:
        how = 'precision="highest"'
    function = "jnp.matmul" if plan.batched else "jnp.dot"
    both = batches.turned(plan, operands.arguments(plan))
    return f"{function}({both}, {how})"


def _reference_is(plan: MatmulPlan) -> str:
    text = "What `matmul` computes, in plain JAX"
    rounding = ", without tf32's rounding" if plan.operand_dtype == "float32" else ""
    return f"{text}{rounding}."


def _cast(plan: MatmulPlan) -> str:
    """Returns the cast from float32 to the output's dtype, if there is anything to do."""
    return "" if plan.out_dtype == "float32" else f".astype({output.dtype(plan)})"


def _pipeline(plan: MatmulPlan) -> dict[str, object]:
    in_flight, delay = plan.wgmma_in_flight, plan.delay_release
    number = schedule.NUMBERS.get(in_flight, str(in_flight))
    steps = {1: "one step"}.get(delay, f"{delay} steps")
    arguments = ["shape", "index_map", "transforms=TRANSFORMS"]
    if delay:
        arguments.append("delay_release=DELAY_RELEASE")
    if plan.cluster > 1:
        arguments.append("collective_axes=collective_axes")
    return {
        "max_concurrent_steps": plan.max_concurrent_steps,
        "wgmma_in_flight": in_flight,
        "delay_release": delay,
        "keeps_wgmma_in_flight": in_flight > 0 and not plan.ping_pong,
        "only_delays_release": in_flight == 0 and delay > 0,
        "in_flight": f"{number} wgmma stay{'s' if in_flight == 1 else ''} in flight",
        "delay": steps,
        "wait": "WGMMA_IN_FLIGHT" if in_flight else "0",
        "block_spec": ", ".join(arguments),
        "block_parameters": (
            "shape, index_map, *collective_axes"
            if plan.cluster > 1
            else "shape, index_map"
        ),
    }


def _layouts(plan: MatmulPlan) -> dict[str, object]:
    pieces = store.stores_pieces(plan)
    whose = "Every warpgroup" if plan.num_compute_wgs > 1 else "The CTA"
    return {
        "swizzle": plan.operand_layout.swizzle,
        "transforms": _transforms(plan, plan.operand_layout, "TILING"),
        "has_own_out_transforms": output.has_own_transforms(plan),
        "out_transforms": _transforms(plan, plan.out_layout, "OUT_TILING"),
        "out_block": ", ".join(
            [
                f"plgpu.BlockSpec({operands.out_dims(plan, 'TILE_M', 'TILE_N')}, "
                f"lambda _: {operands.out_dims(plan, 'm', 'n')}",
                *output.transforms(plan),
            ]
        )
        + ")",
        "stores_whole": not pieces,
        "store_n": plan.store_n,
        "store_slots": plan.store_slots,
        "store_reason": (
            f"{whose} stores pieces of {plan.store_n} columns through "
            f"{plan.store_slots} SMEM slot{'s' if plan.store_slots > 1 else ''}."
        ),
    }


def _transforms(plan: MatmulPlan, layout: Layout, name: str) -> str:
    tiling = name if plan.any_edge else layout.tiling
    return (
        f"(plgpu.TilingTransform({tiling}), plgpu.SwizzleTransform({layout.swizzle}))"
    )

"""What the matmul templates place: words, literals and named booleans of a plan."""

from kgen.arch import ARCHS
from kgen.emit import matmul_test
from kgen.emit.literals import docstring_text
from kgen.plan.model import Layout, MatmulPlan

JAX_RANGE = ">= 0.11.2, < 0.13"
JAX_OLDEST = (0, 11, 2)
JAX_FIRST = "0.11.2 or newer"
NUMBERS = {1: "One", 2: "Two", 3: "Three", 4: "Four"}


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns the values of the templates `matmul` and `test_matmul`."""
    transposed = plan.layout == "nt"
    arch = ARCHS[plan.arch]
    return {
        "name": plan.name,
        "doc": docstring_text(plan.doc if plan.doc.strip() else _formula(plan)),
        "overview": docstring_text(_overview(plan)),
        "arch": f"{arch.title} GPUs ({arch.name})",
        "compute_capability": arch.compute_capability,
        "max_ctas_m": f"{arch.max_grid_yz:_}",
        "jax_range": JAX_RANGE,
        "jax_oldest": JAX_OLDEST,
        "jax_first": JAX_FIRST,
        "dtype": plan.operand_dtype,
        "out_dtype": plan.out_dtype,
        "has_own_out_dtype": plan.out_dtype != plan.operand_dtype,
        "OUT_DTYPE": _out_dtype(plan),
        "cast": _cast(plan),
        "arithmetic": _arithmetic(plan),
        "product": "A @ B.T" if transposed else "A @ B",
        "reference": _reference(plan),
        "reference_is": _reference_is(plan),
        "tile_m": plan.tile_m,
        "tile_n": plan.tile_n,
        "tile_k": plan.tile_k,
        "b_dims": "n, k" if transposed else "k, n",
        "b_unpacked": "(n, _)" if transposed else "(_, n)",
        "b_shape": "(n, b_k)" if transposed else "(b_k, n)",
        "b_block": (
            "(TILE_N, TILE_K), lambda ki: (n, ki)"
            if transposed
            else "(TILE_K, TILE_N), lambda ki: (ki, n)"
        ),
        **_schedule(plan),
        **_pipeline(plan),
        **_layouts(plan),
        **matmul_test.view(plan),
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
        "STORE_N": plan.store_n,
        "STORE_SLOTS": plan.store_slots,
    }


def _formula(plan: MatmulPlan) -> str:
    b = "B[n, k].T" if plan.layout == "nt" else "B[k, n]"
    title = ARCHS[plan.arch].title
    return f"C[m, n] = A[m, k] @ {b} in {plan.operand_dtype} on {title}."


def _overview(plan: MatmulPlan) -> str:
    tile = f"one {plan.tile_m}x{plan.tile_n} tile of C"
    if plan.schedule == "warp_specialized":
        if plan.num_compute_wgs == 1:
            workers = f"one compute warpgroup multiplies {plan.wg_m}x{plan.wg_n}"
        else:
            number = NUMBERS[plan.num_compute_wgs].lower()
            workers = (
                f"{number} compute warpgroups multiply {plan.wg_m}x{plan.wg_n} each"
            )
        return (
            f"Each CTA computes {tile} in steps of {plan.tile_k} along K. A memory "
            f"warpgroup keeps TMA loading tiles of A and B into a ring of SMEM slots; "
            f"{workers}."
        )
    if plan.schedule == "pallas_call":
        return (
            "The grid is (m, n, k) in blocks, as for `pl.pallas_call`: m and n are "
            f"parallel, a CTA for {tile}; k is sequential, and TMA loads blocks of A "
            "and B into a ring of SMEM slots while wgmma multiplies earlier ones."
        )
    return (
        f"Each CTA computes {tile} and walks K in steps of {plan.tile_k}. TMA loads "
        "the tiles of A and B into a ring of SMEM slots while wgmma multiplies earlier "
        "ones."
    )


def _arithmetic(plan: MatmulPlan) -> str:
    if plan.operand_dtype == "float32":
        return "multiplied as tf32, accumulated in float32"
    return "accumulated in float32"


def _reference(plan: MatmulPlan) -> str:
    b = "b.T" if plan.layout == "nt" else "b"
    if plan.operand_dtype == "float32":
        return f'jnp.dot(a, {b}, precision="highest"){_cast(plan)}'
    product = f"jnp.dot(a, {b}, preferred_element_type=jnp.float32)"
    return f"{product}{_cast(plan)}"


def _reference_is(plan: MatmulPlan) -> str:
    text = "What `matmul` computes, in plain JAX"
    rounding = ", without tf32's rounding" if plan.operand_dtype == "float32" else ""
    return f"{text}{rounding}."


def _cast(plan: MatmulPlan) -> str:
    """Returns the cast from float32 to the output's dtype, if there is anything to do."""
    return "" if plan.out_dtype == "float32" else f".astype({_out_dtype(plan)})"


def _out_dtype(plan: MatmulPlan) -> str:
    return "DTYPE" if plan.out_dtype == plan.operand_dtype else "OUT_DTYPE"


def _schedule(plan: MatmulPlan) -> dict[str, object]:
    shared = plan.num_compute_wgs > 1
    splits_m, splits_n = shared and plan.split == "m", shared and plan.split == "n"
    b_operand = "b_smem"
    if splits_n:
        columns = "_wg_columns()" if plan.layout == "nt" else ":, _wg_columns()"
        b_operand = f"b_smem.at[{columns}]"
    if plan.layout == "nt":
        b_operand += ".T"
    dimension = "rows" if plan.split == "m" else "columns"
    return {
        "pipelined": plan.schedule == "pipelined",
        "warp_specialized": plan.schedule == "warp_specialized",
        "pallas_call": plan.schedule == "pallas_call",
        "splits_m": splits_m,
        "splits_n": splits_n,
        "num_compute_wgs": plan.num_compute_wgs,
        "compute_wgs_reason": (
            f"Compute warpgroups; they split the {dimension} of a tile."
            if shared
            else "A single warpgroup multiplies."
        ),
        "memory_registers": plan.memory_registers,
        "others_share": (
            "the others share the rest" if shared else "the other takes the rest"
        ),
        "step_work": {
            (True, False): "this warpgroup's rows of A times all of B's columns",
            (False, True): "all of A's rows times this warpgroup's columns of B",
            (False, False): "a tile of A times a tile of B",
        }[splits_m, splits_n],
        "a_operand": "a_smem.at[_wg_rows()]" if splits_m else "a_smem",
        "b_operand": b_operand,
        "acc_shape": f"({_wg_m(splits_m)}, {_wg_n(splits_n)})",
        "out_slot": 'out_smem.at[lax.axis_index("wg")]' if shared else "out_smem",
        "out_part": {
            (True, False): "out_gmem.at[_wg_rows()]",
            (False, True): "out_gmem.at[:, _wg_columns()]",
            (False, False): "out_gmem",
        }[splits_m, splits_n],
        "scratch_types": _scratch_types(plan, splits_m, splits_n),
        "store_pieces": f"{_wg_n(splits_n)} // STORE_N",
    }


def _wg_m(splits_m: bool) -> str:
    return "WG_M" if splits_m else "TILE_M"


def _wg_n(splits_n: bool) -> str:
    return "WG_N" if splits_n else "TILE_N"


def _scratch_types(plan: MatmulPlan, splits_m: bool, splits_n: bool) -> str:
    if plan.schedule == "pallas_call":
        return '{"acc": plgpu.ACC((TILE_M, TILE_N), jnp.float32)}'
    columns = "STORE_N" if _stores_pieces(plan) else _wg_n(splits_n)
    dimensions = [
        *(["COMPUTE_WGS"] if plan.num_compute_wgs > 1 else []),
        *(["STORE_SLOTS"] if _stores_pieces(plan) else []),
        _wg_m(splits_m),
        columns,
    ]
    arguments = [f"({', '.join(dimensions)})", _out_dtype(plan), *_out_transforms(plan)]
    return f'{{"out_smem": plgpu.SMEM({", ".join(arguments)})}}'


def _stores_pieces(plan: MatmulPlan) -> bool:
    return plan.schedule != "pallas_call" and plan.store_n < plan.wg_n


def _pipeline(plan: MatmulPlan) -> dict[str, object]:
    in_flight, delay = plan.wgmma_in_flight, plan.delay_release
    number = NUMBERS.get(in_flight, str(in_flight))
    steps = {1: "one step"}.get(delay, f"{delay} steps")
    arguments = ["shape", "index_map", "transforms=TRANSFORMS"]
    if delay:
        arguments.append("delay_release=DELAY_RELEASE")
    return {
        "max_concurrent_steps": plan.max_concurrent_steps,
        "wgmma_in_flight": in_flight,
        "delay_release": delay,
        "keeps_wgmma_in_flight": in_flight > 0,
        "only_delays_release": in_flight == 0 and delay > 0,
        "in_flight": f"{number} wgmma stay{'s' if in_flight == 1 else ''} in flight",
        "delay": steps,
        "wait": "WGMMA_IN_FLIGHT" if in_flight else "0",
        "block_spec": ", ".join(arguments),
    }


def _layouts(plan: MatmulPlan) -> dict[str, object]:
    pieces = _stores_pieces(plan)
    whose = "Every warpgroup" if plan.num_compute_wgs > 1 else "The CTA"
    return {
        "swizzle": plan.operand_layout.swizzle,
        "transforms": _transforms(plan.operand_layout),
        "has_own_out_transforms": _has_own_out_transforms(plan),
        "out_transforms": _transforms(plan.out_layout),
        "out_block": ", ".join(
            [
                "plgpu.BlockSpec((TILE_M, TILE_N), lambda _: (m, n)",
                *_out_transforms(plan),
            ]
        )
        + ")",
        "stores_pieces": pieces,
        "stores_whole": not pieces,
        "store_n": plan.store_n,
        "store_slots": plan.store_slots,
        "store_reason": (
            f"{whose} stores pieces of {plan.store_n} columns through "
            f"{plan.store_slots} SMEM slot{'s' if plan.store_slots > 1 else ''}."
        ),
    }


def _has_own_out_transforms(plan: MatmulPlan) -> bool:
    out = plan.out_layout
    return out.swizzle is not None and out != plan.operand_layout


def _out_transforms(plan: MatmulPlan) -> list[str]:
    if plan.out_layout.swizzle is None:
        return []
    name = "OUT_TRANSFORMS" if _has_own_out_transforms(plan) else "TRANSFORMS"
    return [f"transforms={name}"]


def _transforms(layout: Layout) -> str:
    return (
        f"(plgpu.TilingTransform({layout.tiling}), "
        f"plgpu.SwizzleTransform({layout.swizzle}))"
    )

"""The figures of a plan as tables."""

from collections.abc import Callable
from typing import Any

from kgen.explain.fields import FIELDS
from kgen.layouts import COLUMN, ROW, operand_dims
from kgen.tables import Table

type Group = dict[str, Any]


def tables(figures: dict[str, Any]) -> tuple[Table, ...]:
    """Returns the tables of what `explain` returned."""
    shape = figures["shape"]
    size = f"{shape['m']} x {shape['n']} x {shape['k']}"
    return (
        _pairs(figures["kernel"]["name"], "kernel", _KERNEL, figures),
        _pairs("Tile and warpgroups", "tile", _TILE, figures),
        _pairs("Pipeline", "pipeline", _PIPELINE, figures),
        _layout_table(figures["layouts"]),
        _smem_table(figures["smem"]),
        _pairs("Registers per thread", "registers", _REGISTERS, figures),
        _pairs("Occupancy", "occupancy", _OCCUPANCY, figures),
        _pairs(f"At {size} (m x n x k)", "shape", _SHAPE, figures),
        _pairs("Roofline", "roofline", _ROOFLINE, figures),
    )


def _grouped(key: str) -> Callable[[Group], str]:
    return lambda group: "-" if group[key] is None else f"{group[key]:,}"


def _plain(key: str) -> Callable[[Group], str]:
    return lambda group: "-" if group[key] is None else str(group[key])


def _product(*keys: str) -> Callable[[Group], str]:
    return lambda group: " x ".join(str(group[key]) for key in keys)


def _microseconds(key: str) -> Callable[[Group], str]:
    return lambda group: f"{_short(group[key])} us"


def _percent(key: str) -> Callable[[Group], str]:
    return lambda group: f"{group[key]:.1%}"


def _short(value: float) -> str:
    """Returns `value` with four significant digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _tiles(group: Group) -> str:
    whose = "several of a CTA" if group["persistent"] else "one of a CTA"
    if group["ping_pong"]:
        whose += ", its warpgroups in turns"
    if group["raster_order"] is None:
        return whose
    return f"{whose}, bands of {group['raster_width']} along {group['raster_order']}"


def _layout(group: Group) -> str:
    a, b = operand_dims(group["layout"])
    if group["op"] == "glu":
        return f"{group['layout']}: x is [{a}], w_gate and w_up are [{b}]"
    return f"{group['layout']}: A is [{a}], B is [{b}]"


def _out_order(group: Group) -> str:
    result = "out" if group["op"] == "glu" else "C"
    dims = {ROW: "m, n", COLUMN: "n, m"}[group["out_order"]]
    return f"{group['out_order']}: {result} is [{dims}]"


# What each table shows: the key that gives the label, and how the value is written.
_KERNEL = {
    "op": _plain("op"),
    "a_dtype": lambda g: f"{g['a_dtype']} x {g['b_dtype']} -> {g['out_dtype']}",
    "accumulator_dtype": _plain("accumulator_dtype"),
    "layout": _layout,
    "out_order": _out_order,
    "arch": _plain("arch"),
    "schedule": _plain("schedule"),
    "raster_order": _tiles,
    "cluster_m": _product("cluster_m", "cluster_n"),
    "split_k": _plain("split_k"),
    "swap_operands": lambda g: "yes" if g["swap_operands"] else "no",
    "edge": _plain("edge"),
    "epilogue": lambda g: ", ".join(g["epilogue"]) or "nothing",
    "activation": _plain("activation"),
    "entry_point": lambda g: {
        "kernel": "plgpu.kernel",
        "pallas_call": "pl.pallas_call",
    }[g["entry_point"]],
    "spec_file": _plain("spec_file"),
    "spec_digest": lambda g: g["spec_digest"][:12],
    "allowed_rules": lambda g: ", ".join(g["allowed_rules"]) or "nothing",
}
_TILE = {
    "m": _product("m", "n", "k"),
    "num_warpgroups": lambda g: (
        f"{g['num_warpgroups']}: {g['num_compute_wgs']} compute"
        + (", 1 memory" if g["num_warpgroups"] > g["num_compute_wgs"] else "")
    ),
    "threads_per_cta": _plain("threads_per_cta"),
    "split": _plain("split"),
    "wg_m": _product("wg_m", "wg_n"),
}
_PIPELINE = {
    key: _plain(key)
    for key in (
        "max_concurrent_steps",
        "delay_release_steps",
        "wgmma_in_flight",
        "promoted_every",
        "scale_block",
        "gate_first",
        "store_m",
        "store_n",
        "store_slots",
    )
}
_REGISTERS = {
    key: _grouped(key)
    for key in (
        "accumulator_per_thread",
        "other_per_thread",
        "estimate_per_thread",
        "compute_limit_per_thread",
        "memory_limit_per_thread",
        "per_cta",
    )
}
_OCCUPANCY = {
    key: _plain(key) for key in ("by_smem", "by_registers", "by_threads", "ctas_per_sm")
}
_SHAPE = {
    "batch": lambda g: " x ".join(map(str, g["batch"])) or "one matrix",
    "grid": lambda g: " x ".join(map(str, g["grid"])),
    "ctas": _grouped("ctas"),
    "cta_slots": _grouped("cta_slots"),
    "waves": lambda g: f"{g['waves']:,.2f}",
    "tail_efficiency_ratio": _percent("tail_efficiency_ratio"),
    "steps": _grouped("steps"),
    "concurrent_steps": _plain("concurrent_steps"),
    "flops": _grouped("flops"),
    "minimal_bytes": _grouped("minimal_bytes"),
    "uncached_bytes": _grouped("uncached_bytes"),
    "intensity_flops_per_byte": lambda g: _short(g["intensity_flops_per_byte"]),
    "uncached_intensity_flops_per_byte": lambda g: _short(
        g["uncached_intensity_flops_per_byte"]
    ),
}
_ROOFLINE = {
    "device": lambda g: f"{g['device']}, {g['num_sms']} SMs",
    "peak_flops_per_s": lambda g: (
        f"{g['peak_flops_per_s'] / 1e12:g} TFLOP/s ({g['peak_source']})"
    ),
    "hbm_bytes_per_s": lambda g: (
        f"{g['hbm_bytes_per_s'] / 1e12:g} TB/s ({g['hbm_source']})"
    ),
    "compute_us": _microseconds("compute_us"),
    "memory_us": _microseconds("memory_us"),
    "roofline_us": lambda g: f"{_short(g['roofline_us'])} us, {g['bound']} bound",
    "tiles_of_busiest_sm": _grouped("tiles_of_busiest_sm"),
    "quantised_us": _microseconds("quantised_us"),
}


def _pairs(
    title: str,
    group: str,
    shown: dict[str, Callable[[Group], str]],
    figures: dict[str, Any],
) -> Table:
    """Returns a table of labels and values."""
    return Table(
        title=title,
        columns=("", ""),
        rows=tuple(
            (FIELDS[group][key].label, write(figures[group]))
            for key, write in shown.items()
        ),
    )


def _layout_table(layouts: list[Group]) -> Table:
    def cells(layout: Group) -> tuple[str, ...]:
        if layout["swizzle_bytes"] is None:
            return layout["operand"], "-", "-", layout["reason"]
        rows, columns = layout["tiling"]
        return (
            layout["operand"],
            f"{layout['swizzle_bytes']} B",
            f"({rows}, {columns})",
            layout["reason"],
        )

    return Table(
        title="SMEM layouts",
        columns=tuple(field.label for field in FIELDS["layouts"].values()),
        rows=tuple(map(cells, layouts)),
    )


def _smem_table(smem: Group) -> Table:
    buffers = tuple(
        (
            buffer["name"],
            buffer["dtype"],
            " x ".join(map(str, buffer["shape"])) or "-",
            str(buffer["slots"]),
            f"{buffer['bytes']:,}",
        )
        for buffer in smem["buffers"]
    )
    sums = tuple(
        (FIELDS["smem"][key].label, "", "", "", f"{smem[key]:,}")
        for key in ("total_bytes", "free_bytes", "limit_bytes")
    )
    return Table(
        title=f"SMEM of one CTA, {smem['used_ratio']:.1%} used",
        columns=("buffer", "elements", "shape of a slot", "slots", "bytes"),
        rows=buffers + sums,
        right=frozenset({3, 4}),
    )

"""What the matmul templates place about the order of tiles: grid, clusters, raster, rounds."""

from kgen.emit import batches
from kgen.emit.edges import count
from kgen.plan.model import MatmulPlan


def view(plan: MatmulPlan) -> dict[str, object]:
    """Returns grid, cluster and raster."""
    block_m, block_n, block_k = blocks(plan)
    tiles = count(plan, "m", block_m), count(plan, "n", block_n)
    grid, names = list(tiles), ["m", "n"]
    all_tiles = "math.prod(tiles)" if plan.batched else "tiles[0] * tiles[1]"
    if plan.persistent:
        grid, names = [f"_num_ctas({all_tiles}, num_sms)"], ["cta"]
    elif plan.raster is not None:
        tiles_of = "tiles[1] * tiles[2]" if plan.batched else all_tiles
        grid, names = [tiles_of], ["cta"]
    if plan.batched and not plan.persistent:
        grid, names = ["num_matrices", *grid], ["batch", *names]
    if plan.split_k > 1:
        grid, names = ["SPLIT_K", *grid], ["part", *names]
    arguments = [f"num_steps={count(plan, 'k', block_k)}"]
    if plan.raster is not None:
        arguments.insert(0, "tiles=tiles")
    raster = plan.raster
    return {
        "size_of_m": block_m,
        "size_of_n": block_n,
        "size_of_k": block_k,
        "has_order_constants": raster is not None or plan.cluster * plan.split_k > 1,
        "has_raster": raster is not None,
        "raster_dim": "mn".index(raster.order) if raster else None,
        "raster_width": raster.width if raster else None,
        "raster_reason": _raster_reason(plan),
        "limits_m": raster is None,
        "tiles": batches.in_batch(plan, f"({', '.join(tiles)})", "num_matrices"),
        "body": "_matmul_tiles" if plan.persistent else "_matmul_tile",
        "body_arguments": ", ".join(arguments),
        "tile_parameters": "num_steps" if raster is None else "tiles, num_steps",
        "tile_index": (
            'lax.axis_index("m"), lax.axis_index("n")'
            if raster is None
            else 'plgpu.planar_snake(lax.axis_index("cta"), '
            f"tiles{'[1:]' * plan.batched}, RASTER_DIM, RASTER_WIDTH)"
        ),
        "over_part": " over its part of K" if plan.split_k > 1 else "",
        "static_argnames": (
            '("num_sms", "interpret")' if plan.persistent else '"interpret"'
        ),
        "or_no_integer": "; num_sms is no integer" if plan.persistent else "",
        "grid": f"({', '.join(grid)}{',' if len(grid) == 1 else ''})",
        "grid_names": f"({', '.join(map(repr, names))}{',' if len(names) == 1 else ''})",
        "has_cluster": plan.cluster > 1,
        "stands_alone": plan.cluster == 1,
        "cluster": plan.cluster,
        **_rounds(plan),
        "clusters_m": plan.cluster_m > 1,
        "clusters_n": plan.cluster_n > 1,
        "cluster_shares": "B" if plan.cluster_m > 1 else "A",
        "cluster_along": "m" if plan.cluster_m > 1 else "n",
        "splits_k": plan.split_k > 1,
        "split_k": plan.split_k,
    }


def blocks(plan: MatmulPlan) -> tuple[str, str, str]:
    """Returns how much of m, n and k is worked on at once, as source."""
    return (
        "CLUSTER * TILE_M" if plan.cluster_m > 1 else "TILE_M",
        "CLUSTER * TILE_N" if plan.cluster_n > 1 else "TILE_N",
        "SPLIT_K * TILE_K" if plan.split_k > 1 else "TILE_K",
    )


def _rounds(plan: MatmulPlan) -> dict[str, object]:
    """Returns how CTAs are counted, or clusters of two, with an example."""
    if plan.cluster == 1:
        return {
            "ctas": "CTAs",
            "room": "SM",
            "sms": "int(num_sms)",
            "some_tiles": "512 tiles",
            "many_ctas": "132",
            "few_ctas": "128",
        }
    return {
        "ctas": "clusters",
        "room": "two SMs",
        "sms": "int(num_sms) // CLUSTER",
        "some_tiles": "256 pairs of tiles",
        "many_ctas": "66",
        "few_ctas": "64",
    }


def _raster_reason(plan: MatmulPlan) -> str:
    if plan.raster is None:
        return ""
    along, across = plan.raster.order, "n" if plan.raster.order == "m" else "m"
    width = plan.raster.width
    bands = f"Bands of {width} tile{'s' * (width > 1)} along {along}"
    return f"{bands}, walked to and fro along {across}: CTAs share what lies in L2."

"""Where the catalogue's kernels come in the default space, in the order of the model.

A search measures about one candidate a second: what is the fastest must be among the
first hundreds, or ten minutes do not find it.
"""

from pathlib import Path

import pytest

from kgen.plan import make_plan
from kgen.spec.load import load_file
from kgen.tune import session

H200 = Path(__file__).parents[2] / "specs" / "h200"
PLAIN = """[kernel]
name = "any"
op = "matmul"

[schedule]
warp_specialized = true
"""


def kind(plan):
    """What decides how fast a kernel is, but for its raster."""
    return (
        (plan.tile_m, plan.tile_n, plan.tile_k, plan.max_concurrent_steps),
        (plan.persistent, plan.ping_pong, plan.split_k, plan.swap_operands),
        (plan.cluster_m, plan.cluster_n),
    )


@pytest.mark.parametrize(
    ("name", "shape", "within"),
    [
        ("bf16_16x64_swapped", (16, 8192, 8192), 5),
        ("bf16_64x64_cluster", (64, 8192, 8192), 20),
        ("bf16_64x128_split_k", (128, 4096, 14336), 5),
        ("bf16_128x128_ping_pong", (16896, 512, 640), 100),
        ("bf16_128x256_persistent", (4096, 4096, 4096), 5),
    ],
)
def test_the_fastest_known_is_predicted_early(name, shape, within, tmp_path):
    spec = tmp_path / "any.toml"
    spec.write_text(PLAIN)
    (fastest,) = load_file(H200 / f"{name}.toml")
    wanted = kind(make_plan(fastest))
    order = [kind(each.plan) for each in session.read(spec, shape).candidates]
    assert wanted in order[:within]

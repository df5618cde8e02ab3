"""What a module promises beside its product: what it refuses, picks and says of itself.

Faults are planted into modules of the catalogue. Nothing is simulated.
"""

import dataclasses
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from oldest import newest_only

from kgen.targets import find_targets
from kgen.targets.asked import Asked
from kgen.verify import extremes, lower, picks, plain, refusals, static, verify
from kgen.verify.explain import LevelError
from kgen.verify.layout import full_name
from kgen.verify.request import LOWER, SIMULATE, Request, RequestCase
from kgen.verify.table import Table
from kgen.verify.worker import load

GENERATED = Path(__file__).parents[2] / "generated"
PICKER = "matmul_h200"

# The module, the text that is replaced, what replaces it, and what is said of it.
REFUSALS = [
    (
        "bf16_128x128",
        "if operand.dtype != DTYPE:",
        "if False:",
        "a is of int32: it fails later with",
    ),
    (
        "bf16_128x128",
        "operand.dtype != DTYPE",
        'operand.dtype == "int32"',
        "a is of float16",
    ),
    (
        "bf16_128x128",
        "if size == 0 or size % tile:",
        "if size == 0:",
        "m is 129, no positive multiple of 128: it takes that",
    ),
    (
        "bf16_128x128",
        "if size == 0 or size % tile:",
        "if size % tile:",
        "m is 0, no positive multiple of 128: it takes that",
    ),
    (
        "bf16_128x128",
        "size % tile:",
        "size % (tile // 2):",
        "n is 192, no positive multiple of 128: it takes that",
    ),
    (
        "bf16_nt_128x64",
        "if k != b_k:",
        "if k > b_k:",
        "b alone has twice the k: it takes that",
    ),
    (
        "bf16_128x256_any",
        "jax.typeof(operand).ndim != 2",
        "operand.ndim > 2",
        "a is of shape [24]",
    ),
    (
        "bf16_128x256_any",
        "jax.typeof(operand).ndim != 2",
        "operand.ndim < 2",
        "a is of shape [1, 8, 24]",
    ),
    ("bf16_128x256_any", "if num_sms < 1:", "if num_sms < 0:", "num_sms is 0"),
    (
        "bf16_bias_silu_any",
        "if jax.typeof(bias).shape != (n,):",
        "if bias.ndim != 1:",
        "bias is of shape [1], not [16]: it takes that",
    ),
    (
        "bf16_bias_silu_any",
        "if bias.dtype != jnp.bfloat16:",
        "if False:",
        "bias is of float16",
    ),
    (
        "e4m3_128x128_block_scaled",
        "if jax.typeof(scale).shape != shape:",
        "if False:",
        "a_scale is of shape [129, 1], not [128, 1]: it takes that",
    ),
    (
        "e4m3_128x128_block_scaled",
        "if scale.dtype != jnp.float32:",
        "if False:",
        "a_scale is of bfloat16: it takes that",
    ),
    (
        "bf16_glu_silu",
        "if w_up.shape != w_gate.shape:",
        "if w_up.shape < w_gate.shape:",
        "w_up alone has twice the n: it takes that",
    ),
    (
        "bf16_128x256_autodiff",
        "if k % 256:",
        "if k % 64:",
        "k is 64, no multiple of 256, to differentiate: it fails later with"
        " ZeroDivisionError",
    ),
    (
        "fp16_batched_any",
        "jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])\n    except",
        "a.shape[:-2]\n    except",
        "the leading dimensions of a and b are 2 and 3: it fails later",
    ),
]

TRACED = [
    (
        "bf16_128x256_any",
        "rows > tile_rows else",
        "rows > tile_rows + 1 else",
        "KG307 9 of bfloat16[9, 24] is not a multiple of 8",
    ),
    (
        "bf16_128x256_any_narrow",
        "if columns > tile_columns:",
        "if columns > tile_columns + 8:",
        "at: m=33, n=33, k=33",
    ),
    (
        "bf16_128x128",
        "MAX_M = 65_535 *",
        "MAX_M = 65_536 *",
        "at: m=8388608, n=128, k=64, which is not refused",
    ),
    (
        "fp16_batched_any",
        "MAX_MATRICES = 65_535",
        "MAX_MATRICES = 65_536",
        "at: a=[65536], b=[65536], m=64, n=64, k=64, which is not refused",
    ),
]

PLAIN = [
    (
        "bf16_128x256_any",
        "return jnp.zeros(",
        "return jnp.ones(",
        "at m=3, n=5, k=0: 15",
    ),
    ("bf16_128x256_any", "if 0 in (m, n, k):", "if 0 in (m, n):", "at m=3, n=5, k=0: "),
    ("bf16_128x256_any", "if 0 in (m, n, k):", "if 0 in (n, k):", "at m=0, n=5, k=7: "),
    (
        "bf16_bias_silu_any",
        "return _finish(jnp.zeros((m, n), jnp.float32), bias)",
        "return jnp.zeros((m, n), DTYPE)",
        "at m=3, n=5, k=0: 15 of 15 elements are wrong",
    ),
    (
        "fp16_batched_any",
        "0 in (*batch, m, n, k)",
        "0 in (m, n, k)",
        "at a=[0], b=[0], ",
    ),
    (
        "bf16_128x256_any",
        "return jnp.dot(a, b, ",
        "return jnp.dot(a, b + 1, ",
        "the module's own reference at m=8, n=16, k=24 on small integers: 128 of 128",
    ),
    (
        "bf16_glu_silu",
        "jax.nn.silu(gate) * up",
        "jax.nn.silu(up) * gate",
        "the module's own reference at m=128, n=128, k=64 on small integers",
    ),
]

# One for each way in which a function passes its SMs on.
PERSISTENT = [
    "bf16_128x128_batched",
    "bf16_128x256_any_narrow",
    "bf16_128x256_autodiff",
    "bf16_bias_gelu_autodiff",
    "bf16_glu_silu",
]

PICKS = [
    ("nearest = min(", "nearest = max(", "choose(4096, 8192, 4096) must be the kernel"),
    ("math.log2(x / y)", "(x - y)", "choose(4096, 8192, 8192) must be the kernel"),
    ("abs(math.log2", "(math.log2", "must be the kernel"),
    ("size > 0 and size", "size", "must raise ValueError, since no kernel can do it"),
    (
        "m > kernel.max_m",
        "m > 2 * kernel.max_m",
        "since no kernel can do it; got Choice",
    ),
    (
        "m > kernel.max_m",
        "m >= kernel.max_m",
        "choose(1048560, 64, 256) raises ValueError",
    ),
    (
        "exact=nearest == (m, n, k)",
        "exact=True",
        "of (4096, 8192, 4096), exact=False; got",
    ),
    (
        "(64, 128, 64)),\n",
        "(64, 128, 32)),\n",
        "KERNELS['bf16_64x128_small'] has the units (64, 128, 32)",
    ),
    (
        "bf16_64x128_small.matmul,",
        "bf16_64x128_split_k.matmul,",
        "KERNELS['bf16_64x128_small'] has the function of bf16_64x128_split_k",
    ),
    (
        "choose(m, n, k).kernel]",
        "choose(m, n, 2 * k).kernel]",
        "it calls bf16_128x256_persistent_deep",
    ),
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Returns what gives a function, what is asked of it, and its file."""
    directory = tmp_path_factory.mktemp("planted")
    shutil.copytree(
        GENERATED, directory, ignore=shutil.ignore_patterns("tests"), dirs_exist_ok=True
    )
    names = [path.stem for path in directory.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(directory))

    def plant(name, old="", new=""):
        path = directory / f"{name}.py"
        text = (GENERATED / f"{name}.py").read_text("utf-8")
        assert not old or text.count(old) == 1, old
        path.write_text(text.replace(old, new) if old else text, "utf-8")
        request = asked(path)
        function = getattr(load(full_name(request), path), request.function)
        return function, request, path

    yield plant
    sys.path.remove(str(directory))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def asked(path, *shapes) -> Request:
    (target,) = find_targets([str(path)], Asked(shapes=shapes), None)
    return target.request


def traced(function, request, _, num_sms):
    """Returns what a function does with so many SMs, as text."""
    case = dataclasses.replace(request.cases[1], num_sms=num_sms)
    called = lower.called(function, case)
    return str(jax.make_jaxpr(called)(*lower.operands(request, case)))


def ignore(_):
    """Takes what a level says about its progress."""


@newest_only
@pytest.mark.parametrize(("name", "old", "new", "told"), REFUSALS)
def test_what_a_module_should_refuse_and_does_not(planted, name, old, new, told):
    with pytest.raises(LevelError) as caught:
        refusals.check(*planted(name, old, new))
    first, *others = str(caught.value).splitlines()
    assert first.endswith(" must refuse with a ValueError, before it builds a kernel:")
    assert told in "\n".join(others)


@pytest.mark.parametrize(("name", "old", "new", "told"), TRACED)
def test_a_size_where_something_begins_to_be_different(planted, name, old, new, told):
    function, request, path = planted(name, old, new)
    request = dataclasses.replace(request, cases=request.cases[:1])
    with pytest.raises(LevelError, match="see `kgen rule KG") as caught:
        static.run(function, request, path, ignore)
    assert told in str(caught.value)


@pytest.mark.parametrize(("name", "old", "new", "told"), PLAIN)
def test_what_needs_no_kernel(planted, name, old, new, told):
    with pytest.raises(LevelError) as caught:
        plain.check(*planted(name, old, new), ignore)
    assert str(caught.value).startswith(told)


@newest_only
@pytest.mark.parametrize(("old", "new", "told"), PICKS)
def test_a_kernel_that_the_table_does_not_name(planted, old, new, told):
    with pytest.raises(LevelError) as caught:
        picks.check(*planted(PICKER, old, new), ignore)
    assert told in str(caught.value)


def test_a_table_other_than_the_specs(planted):
    function, request, path = planted(PICKER)
    table = Table.from_json(request.table)
    picks.check(function, request, path, ignore)
    table.buckets[1024, 1024, 1024] = "bf16_64x128_split_k"
    request = dataclasses.replace(request, table=table.to_json())
    with pytest.raises(LevelError, match="BUCKETS must be "):
        picks.check(function, request, path, ignore)


def test_a_module_that_promises_nothing_is_told(planted):
    function, request, path = planted(
        "bf16_128x128", "      ValueError: a shape", "      a shape"
    )
    (note,) = refusals.check(function, request, path)
    assert note == "bad operands not tried: matmul's docstring promises no ValueError"


@pytest.mark.parametrize(
    "name",
    [
        PICKER,
        "bf16_128x256_any",
        "bf16_residual",
        "e4m3_e5m2_128x128",
        "fp16_batched_any",
        "fp16_glu_gelu",
    ],
)
def test_modules_that_keep_what_they_promise(planted, name):
    function, request, path = planted(name)
    assert refusals.check(function, request, path) == ()
    picks.check(function, request, path, ignore)
    plain.check(function, request, path, ignore)


@pytest.mark.parametrize("name", PERSISTENT)
@pytest.mark.parametrize("num_sms", [2.0, np.float64(3), "4"])
def test_sms_that_are_no_integer_are_refused(planted, name, num_sms):
    with pytest.raises(TypeError) as caught:
        traced(*planted(name), num_sms)
    assert str(caught.value) == f"num_sms must be an integer, got {num_sms!r}"


@pytest.mark.parametrize("name", PERSISTENT)
@pytest.mark.parametrize("num_sms", [np.int64(2), np.uint8(2)])
def test_sms_may_be_an_integer_of_numpy(planted, name, num_sms):
    known = planted(name)
    assert traced(*known, num_sms) == traced(*known, int(num_sms))
    assert traced(*known, num_sms) != traced(*known, 4)


def test_sizes_of_which_none_needs_a_kernel_prove_nothing():
    path = GENERATED / "bf16_128x256_any.py"
    request = asked(path, "64,72,0", "0,3,5")
    assert [case.kernels for case in request.cases] == [0, 0]
    verdict = verify(request, levels=(LOWER, SIMULATE), cache=False)
    assert not verdict.passed
    assert "every size is a product of nothing" in verdict.failure.detail
    request = asked(path, "64,72,0", "64,72,8")
    verdict = verify(request, levels=(LOWER, SIMULATE), cache=False)
    assert verdict.passed, str(verdict.failure)


def test_a_kernel_where_none_is_needed(planted):
    function, request, path = planted(
        "bf16_128x256_any", "if 0 in (m, n, k):", "if False:"
    )
    case = RequestCase(m=64, n=0, k=8)
    with pytest.raises(LevelError, match="at m=64, n=0, k=8: "):
        lower.run(function, dataclasses.replace(request, cases=(case,)), path, ignore)


def test_sizes_around_atoms_are_of_both_dtypes():
    request = asked(GENERATED / "bf16_128x256_any.py")
    sizes = [(case.m, case.n) for case in extremes.around_atoms(request)]
    assert sizes == [(33, 33), (65, 65), (9, 17), (17, 9)]
    request = dataclasses.replace(request, out_dtype="float32")
    assert [case.n for case in extremes.around_atoms(request)] == [17, 33, 65, 9, 9]
    assert extremes.around_atoms(asked(GENERATED / "bf16_128x128.py")) == ()

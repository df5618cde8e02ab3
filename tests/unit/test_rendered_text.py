"""What modules with an epilogue, a gate or tensors say of themselves, in plain words."""

import ast

import pytest
from made import plan
from oldest import newest_only
from tidy import loops_of_one, unused

from kgen import module_text
from kgen.emit.render import render, render_unformatted
from kgen.errors import SpecError

pytestmark = newest_only

PERSISTENT = "[schedule]\nwarp_specialized = true\npersistent = true\n"
SINGLE = "[tile]\nm = 64\nn = 64\n" + PERSISTENT + "num_compute_wgs = 1\n"
GLU = '[kernel]\nname = "gated"\nop = "glu"\n'
SUMMED = (
    "[schedule]\nwarp_specialized = true\nsplit_k = 2\n" '[dtypes]\nout = "float32"\n'
)
TORCH = "[module]\ntorch = true\n" + PERSISTENT


def chain(*steps):
    return "".join(f"[[epilogue]]\nop = {step}\n" for step in steps)


def text(directory, spec):
    return render_unformatted(plan(directory, spec))


def docstrings(source):
    """Returns the docstrings of a module and of its functions, each on one line."""
    tree = ast.parse(source)
    named = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = {node.name: ast.get_docstring(node) or "" for node in named}
    found["module"] = ast.get_docstring(tree) or ""
    return {name: " ".join(each.split()) for name, each in found.items()}


def body(source, function):
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    )
    return ast.unparse(found)


class TestWhatIsReturned:
    @pytest.mark.parametrize(
        ("steps", "returned", "headline"),
        [
            (
                ('"bias"', '"gelu"'),
                "gelu(A @ B + bias)",
                "gelu(A[m, k] @ B[k, n] + bias[n]) in",
            ),
            (
                ('"scale"', '"residual"\nbeta = 0.5'),
                "alpha * (A @ B) + 0.5 * residual",
                "alpha * (A[m, k] @ B[k, n]) + 0.5 * residual[m, n] in",
            ),
            (
                ('"bias"\nalong = "m"', '"scale_columns"', '"scale"\nvalue = 2'),
                "2.0 * (A @ B + bias[:, None]) * column_scale",
                "2.0 * (A[m, k] @ B[k, n] + bias[m]) * column_scale[n] in",
            ),
            (
                ('"cast"\ndtype = "float16"', '"clamp"\nmax = 6', '"softcap"\ncap = 3'),
                "softcap(min(float16(A @ B), 6.0), 3.0)",
                "softcap(min(float16(A[m, k] @ B[k, n]), 6.0), 3.0) in",
            ),
            (
                ('"bias"', '"save"', '"silu"'),
                "the tuple (silu(x), x) with x = A @ B + bias",
                "silu(x) and x = A[m, k] @ B[k, n] + bias[n] in",
            ),
            (
                (
                    *('"scale_rows"', '"scale_columns"', '"bias"', '"residual"'),
                    '"clamp"\nmin = -1\nmax = 1',
                ),
                "A @ B after scale_rows, scale_columns, bias, residual and clamp",
                "A[m, k] @ B[k, n] with an epilogue, in",
            ),
        ],
        ids=lambda value: value[0] if isinstance(value, tuple) else "",
    )
    def test_the_epilogue_is_in_it(self, tmp_path, steps, returned, headline):
        found = docstrings(text(tmp_path, chain(*steps)))
        assert found["matmul"].startswith(f"Returns {returned}. Args:")
        assert found["module"].startswith(f"C[m, n] = {headline} bfloat16 on")

    def test_of_a_batch(self, tmp_path):
        found = docstrings(text(tmp_path, "[shapes]\nbatch = true\n" + chain('"bias"')))
        assert found["matmul"].startswith(
            "Returns A @ B + bias[..., None, :]. Leading dimensions broadcast, as in "
            "`jnp.matmul`. Args:"
        )
        assert found["module"].startswith(
            "C[..., m, n] = A[..., m, k] @ B[..., k, n] + bias[..., n] in"
        )

    def test_a_long_chain_keeps_to_the_line(self, tmp_path):
        steps = [f'"bias"\nargument = "bias_{i}"' for i in range(15)]
        source = text(tmp_path, chain(*steps))
        assert '    """Returns what the epilogue makes of A @ B.\n' in source
        saved = text(tmp_path, chain('"save"', *steps))
        returned = "Returns the tuple (out, saved) that the epilogue makes of A @ B.\n"
        assert f'    """{returned}' in saved

    def test_what_is_saved_is_among_the_operands(self, tmp_path):
        source = text(tmp_path, chain('"save"', '"silu"'))
        assert (
            "    out    bfloat16[m, n]    accumulated in float32\n"
            "    saved  bfloat16[m, n]    x at save(), see below\n"
        ) in source

    @pytest.mark.parametrize(
        ("beta", "words"),
        [
            ("1", "what is added"),
            ("-1", "what is subtracted"),
            ("0.5", "what is added, times 0.5"),
            ("-2", "what is subtracted, times 2.0"),
        ],
    )
    def test_the_factor_of_a_residual(self, tmp_path, beta, words):
        source = text(tmp_path, chain(f'"residual"\nbeta = {beta}'))
        assert f"      residual: bfloat16[m, n], {words}.\n" in source


@pytest.mark.parametrize(
    ("beta", "narrow", "term"),
    [
        ("1", "residual", "+ residual"),
        ("-1", "residual", "- residual"),
        ("-2", "residual.astype(jnp.float32)", "- 2.0 * residual"),
        ("0.5", "residual.astype(jnp.float32)", "+ 0.5 * residual"),
    ],
)
def test_a_residual_has_one_sign_and_no_factor_of_one(tmp_path, beta, narrow, term):
    made = plan(tmp_path, chain(f'"residual"\nbeta = {beta}', '"relu"'))
    module = render(made, verified=False, prove=False)
    in_code = term.replace("residual", narrow)
    assert module.source.count(f"    x = x {in_code}\n") == 2
    assert f"  x {term}[m, n]\n" in module.source
    in_numpy = term.replace("residual", "np.asarray(residual, np.float64)")
    assert f"    x = x {in_numpy}\n" in module.test_source


@pytest.mark.parametrize(
    ("steps", "out", "comment"),
    [
        (
            ('"silu"',),
            "float16",
            "# The hardware's own exponentials: their error is far below float16's "
            "rounding.\n",
        ),
        (
            ('"tanh"',),
            "bfloat16",
            "# The hardware's own tanh is good to 11 bits; bfloat16 keeps 8.\n",
        ),
        (
            ('"softcap"\ncap = 30',),
            "float16",
            "# The hardware's own tanh is good to 11 bits, as many as float16 keeps: it "
            "may be as far\n# off as rounding is.\n",
        ),
        (
            ('"gelu"', '"tanh"'),
            "bfloat16",
            "# The hardware's own exponentials: their error is far below bfloat16's "
            "rounding. The\n# hardware's own tanh is good to 11 bits; bfloat16 keeps "
            "8.\n",
        ),
    ],
    ids=["silu", "tanh", "softcap", "both"],
)
def test_how_close_the_hardware_is(tmp_path, steps, out, comment):
    dtypes = f'[dtypes]\na = "{out}"\nb = "{out}"\n'
    assert f"\n{comment}COMPILER_PARAMS" in text(tmp_path, dtypes + chain(*steps))


def test_a_single_warpgroup_is_one(tmp_path):
    found = docstrings(text(tmp_path, SINGLE))["module"]
    assert (
        "one compute warpgroup multiplies 64x64 and stores its tile while the next one "
        "is already loading."
    ) in found
    gated = docstrings(text(tmp_path, GLU + SINGLE))["module"]
    assert (
        "The compute warpgroup has two accumulators of 64x64, applies the gate in "
        "registers and stores its tile while the next one is already loading."
    ) in gated


class TestChecksOfArguments:
    @pytest.mark.parametrize(
        ("batch", "step", "checks"),
        [
            (
                "",
                '"bias"',
                "    if jax.typeof(bias).shape != (n,):\n"
                '        raise ValueError(f"bias must have shape ({n},), got '
                '{bias.shape}")\n'
                "    if bias.dtype != jnp.bfloat16:\n"
                '        raise ValueError(f"bias must be bfloat16, got {bias.dtype}")\n',
            ),
            (
                "",
                '"residual"',
                "    if jax.typeof(residual).shape != (m, n):\n"
                '        raise ValueError(f"residual must have shape ({m}, {n}), got '
                '{residual.shape}")\n',
            ),
            (
                "",
                '"scale"',
                "    if jax.typeof(alpha).shape != ():\n"
                '        raise ValueError(f"alpha must have shape (), got '
                '{alpha.shape}")\n',
            ),
            (
                "[shapes]\nbatch = true\n",
                '"residual"',
                "    if jax.typeof(residual).shape[-2:] != (m, n):\n",
            ),
        ],
        ids=["vector", "matrix", "scalar", "batch"],
    )
    def test_one_is_checked_without_a_loop(self, tmp_path, batch, step, checks):
        source = text(tmp_path, batch + chain(step))
        _, _, found = source.partition("def _check_arguments(")
        assert checks in found
        assert "for name" not in found

    def test_a_scalar_of_a_batch_has_any_shape(self, tmp_path):
        source = text(tmp_path, "[shapes]\nbatch = true\n" + chain('"scale"'))
        assert "alpha.dtype" in body(source, "_check_arguments")
        assert "must have shape" not in body(source, "_check_arguments")

    def test_several_are_checked_in_a_loop(self, tmp_path):
        source = text(tmp_path, chain('"scale"', '"bias"'))
        assert body(source, "_check_arguments").count("raise ValueError") == 2


class TestGradientRules:
    @pytest.mark.parametrize(
        ("kernel", "tables", "remedy"),
        [
            ("", "", "render its spec with autodiff = true"),
            ("", PERSISTENT, "render its spec with autodiff = true"),
            (
                'layout = "tt"\n',
                chain('"bias"'),
                "render its spec with autodiff = true",
            ),
            (
                "",
                "[shapes]\nbatch = true\n",
                "define one around it with jax.custom_vjp",
            ),
            ("", TORCH, "define one around it with jax.custom_vjp"),
            # Its gradients would need other tiles.
            (
                'layout = "nt"\n',
                "[tile]\nm = 64\nn = 8\nk = 64\n",
                "define one around it with jax.custom_vjp",
            ),
        ],
    )
    def test_a_module_without_one_says_what_its_spec_allows(
        self, tmp_path, kernel, tables, remedy
    ):
        source = text(tmp_path, f"[kernel]\n{kernel}{tables}")
        message = f"matmul has no gradient rule: {remedy}"
        assert f"raise TypeError('{message}')" in body(source, "_")
        try:
            plan(tmp_path, f"[kernel]\nautodiff = true\n{kernel}{tables}")
        except SpecError:
            assert "autodiff" not in remedy
        else:
            assert "autodiff" in remedy

    def test_a_gated_linear_unit_has_its_own_name(self, tmp_path):
        source = text(tmp_path, GLU + PERSISTENT)
        assert "'glu has no gradient rule: define one around it" in body(source, "_")

    def test_a_module_with_one_is_not_forward_only(self, tmp_path):
        source = text(tmp_path, "[kernel]\nautodiff = true\n")
        assert "_forward_only" not in source
        assert "TypeError: an operand is no array." in source


class TestChecksOfGradients:
    def test_one_size_is_checked_without_a_loop(self, tmp_path):
        source = text(tmp_path, "[kernel]\nautodiff = true\n" + PERSISTENT)
        assert body(source, "_check_gradients") == (
            "def _check_gradients(a):\n"
            "    _, k = a.shape\n"
            "    if k % 128:\n"
            "        raise ValueError(f'to differentiate, k must be a multiple of 128, "
            "got {k}')"
        )

    def test_one_height_is_checked_without_a_loop(self, tmp_path):
        spec = '[kernel]\nautodiff = true\nlayout = "nt"\n[shapes]\nedge = "any"\n'
        assert body(text(tmp_path, spec), "_check_gradients") == (
            "def _check_gradients(b):\n"
            "    n, _ = b.shape\n"
            "    if n > MAX_M:\n"
            "        raise ValueError(f'to differentiate, n must be at most {MAX_M}, "
            "got {n}')"
        )

    def test_several_are_checked_in_loops(self, tmp_path):
        spec = '[kernel]\nautodiff = true\nlayout = "tt"\n[tile]\nm = 64\nn = 128\nk = 32\n'
        found = body(text(tmp_path, spec), "_check_gradients")
        assert found.count("for name, size, unit in ((") == 1
        assert found.count("for name, size in (('k', k), ('n', n)):") == 1


@pytest.mark.parametrize(
    "spec",
    [
        chain('"scale"', '"scale_rows"'),
        "[shapes]\nbatch = true\n" + chain('"scale_columns"'),
        SUMMED + chain('"silu"'),
        SUMMED + '[shapes]\nedge = "any"\n',
        "[kernel]\nautodiff = true\n" + chain('"bias"\nalong = "m"'),
        "[kernel]\nautodiff = true\n" + SUMMED,
    ],
)
def test_a_variant_has_no_name_and_no_loop_too_many(tmp_path, spec):
    made = render(plan(tmp_path, spec), verified=False, prove=False)
    for source in (made.source, made.test_source):
        names = unused(ast.parse(source)) - {"matmul", "reference"}
        assert [name for name in names if not name.startswith("test_")] == []
        assert loops_of_one(ast.parse(source)) == []


class TestGatedLinearUnits:
    def test_transposed_weights_are_said_to_be(self, tmp_path):
        formula = "silu(x @ w_gate.T) * (x @ w_up.T)"
        source = text(tmp_path, GLU + 'layout = "nt"\n' + PERSISTENT)
        found = docstrings(source)
        assert found["module"].startswith(f"{formula} in bfloat16.")
        assert f"out = glu(x, w_gate, w_up) # {formula} One" in found["module"]
        assert found["glu"].startswith(f"Returns {formula}. Args:")
        assert module_text.describe(source).activation == "silu"

    @pytest.mark.parametrize(
        ("activation", "applied"),
        [("silu", "gate * _sigmoid(gate) * up"), ("gelu", "_gelu(gate) * up")],
    )
    def test_one_piece_is_stored_without_a_loop(self, tmp_path, activation, applied):
        spec = f'{GLU}activation = "{activation}"\n{SINGLE}'
        source = text(tmp_path, spec)
        assert "STORE_" not in source
        assert f"out_smem[...] = ({applied}).astype(DTYPE)" in body(source, "_store")
        assert "piece" not in source

    def test_pieces_are_stored_in_turns(self, tmp_path):
        source = text(tmp_path, f"{GLU}{SINGLE}[store]\nn = 32\n")
        assert "# The CTA stores pieces of 32 columns through 2 SMEM slots." in source
        assert "x * _sigmoid(x) * up[:, columns]" in body(source, "_store")


def test_the_function_for_tensors_is_named_and_said_not_to_be_verified(tmp_path):
    found = docstrings(text(tmp_path, TORCH))["module"]
    assert (
        "`matmul_torch` does the same with PyTorch tensors. The verification of this "
        "module does not cover it. Made for jax"
    ) in found
    assert "PyTorch" not in docstrings(text(tmp_path, PERSISTENT))["module"]


SCALES = ('"scale_rows"', '"scale_columns"')
PIECES = "[store]\nn = 64\n" + PERSISTENT


@pytest.mark.parametrize(
    ("spec", "at_once"),
    [
        ("[tile]\nm = 128\nn = 256\n" + chain(*SCALES), True),
        ("[tile]\nm = 128\nn = 256\n" + chain('"bias"', '"relu"'), True),
        # The first copy would wait for all of the exponentials.
        ("[tile]\nm = 128\nn = 256\n" + chain('"bias"', '"gelu"'), False),
        # Nothing is loaded for the pieces, or another part for each.
        ("[tile]\nm = 128\nn = 256\n" + chain('"relu"'), False),
        ("[tile]\nm = 128\nn = 256\n" + chain('"bias"', '"residual"'), False),
        # 192 registers of accumulator, and 48 for the vector.
        ("[tile]\nm = 256\nn = 192\n" + chain('"bias"'), False),
    ],
)
def test_vectors_are_loaded_once_where_they_fit(tmp_path, spec, at_once):
    stages = "[pipeline]\nmax_concurrent_steps = 2\n"
    store = body(text(tmp_path, PIECES + stages + spec), "_store")
    before, loop = store.split("for piece in")
    assert ("_epilogue(" in before) == at_once
    assert ("_epilogue(" in loop) != at_once


ANY = '[shapes]\nedge = "any"\n'
ONE_WG = PERSISTENT + "num_compute_wgs = 1\n"


@pytest.mark.parametrize(
    ("spec", "padded"),
    [
        # A tile of the output is stored at once, or in pieces of two tiles in SMEM.
        ("[tile]\nm = 64\nn = 64\n" + ONE_WG, ["(m, n), DTYPE, TILING)"]),
        (
            "[tile]\nm = 64\nn = 128\n[store]\nn = 64\n"
            "[transforms]\nout = { swizzle = 64 }\n" + ONE_WG,
            ["(m, n), DTYPE, OUT_TILING)"],
        ),
        # The second piece, warpgroup, CTA or part of K begins beyond the only tile.
        (
            "[tile]\nm = 64\nn = 128\n[store]\nn = 64\n" + ONE_WG,
            ["(m, n), DTYPE, TILING, (0, STORE_N + 1))"],
        ),
        (
            '[tile]\nm = 64\nn = 128\n[schedule]\nwarp_specialized = true\nsplit = "n"\n',
            ["(m, n), DTYPE, TILING, (0, WG_N + 1))"],
        ),
        (
            "[tile]\nm = 64\nn = 64\n[cluster]\nn = 2\n" + ONE_WG,
            ["(m, n), DTYPE, TILING, (0, TILE_N + 1))", "_pad(b, (0, TILE_N + 1))"],
        ),
        (
            "[tile]\nm = 64\nn = 64\n[schedule]\nwarp_specialized = true\n"
            "num_compute_wgs = 1\nsplit_k = 2\n",
            ["_pad(a, (0, TILE_K + 1))", "_pad(b)"],
        ),
        # B lies as rows of k here, and as rows of n where a gradient is computed.
        (
            '[kernel]\nautodiff = true\nlayout = "nt"\n'
            "[tile]\nm = 64\nn = 64\n[cluster]\nn = 2\n" + ONE_WG,
            ["_pad(b, (0, TILE_N + 1))"],
        ),
    ],
)
def test_a_second_tile_where_copies_begin_beyond_the_first(tmp_path, spec, padded):
    source = " ".join(text(tmp_path, ANY + spec).split())
    for each in padded:
        assert each in source.replace("( ", "(").replace(" )", ")")

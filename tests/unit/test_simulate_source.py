"""What is read of a kernel's own text: names of operands, lines to change."""

from kgen.verify.simulate import source

KERNEL = """\
DELAY = 1


@decorated
def body(a_gmem, b_ref, out_gmem, *rest, steps):
    emit_pipeline(
        in_specs=[
            plgpu.BlockSpec((64, 64), index, delay_release=DELAY),
            BlockSpec((64, 64), index),
            pl.BlockSpec(
                (64, 64),
                delay_release=2,
            ),
        ],
        out_specs=[plgpu.BlockSpec((64, 64), index)],
    )


SCRATCH = {
    "loaded": plgpu.Barrier(num_arrivals=2),
    "unloaded": plgpu.Barrier(),
}
"""


def written(directory):
    path = directory / "kernel.py"
    path.write_text(KERNEL)
    return path


def test_operands_are_named_by_the_body(tmp_path):
    path = written(tmp_path)
    names = ["refs[0]", "refs[1]", "refs[2]", "refs[3]"]
    assert source.parameters(names, f"body at {path}:4") == [
        "a",
        "b",
        "out",
        "operand 3",
    ]
    assert source.parameters(names[:1], f"other at {path}:4") == ["operand 0"]
    assert source.parameters(["x_ref", ""], "no place") == ["x", "operand 1"]


def test_every_block_spec_of_an_input_has_the_line_of_its_delay(tmp_path):
    specs = source.block_specs(written(tmp_path))
    assert [(spec.line, spec.set_at) for spec in specs] == [(8, 1), (9, None), (10, 12)]


def test_a_module_that_cannot_be_read_has_no_block_specs(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def (")
    assert source.block_specs(broken) == []
    assert source.block_specs(tmp_path / "missing.py") == []


def test_a_barrier_has_the_line_that_makes_it(tmp_path):
    path = written(tmp_path)
    assert source.barrier_line("loaded", path) == 20
    assert source.barrier_line("unloaded", path) == 21
    assert source.barrier_line("out", path) is None

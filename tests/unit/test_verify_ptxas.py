"""What ptxas says, in texts such as it wrote for kernels on one NVIDIA H200."""

import os
import subprocess
import sys

import pytest
from oldest import newest_only

from kgen.verify import ptxas
from kgen.verify.ptxas import Kernel, Message, Report, parse

pytestmark = newest_only

NAME = "anonymous_mosaic_gpu_kernel"


def told(registers=168, stores=0, loads=0, stack=0, messages=()):
    """Returns what ptxas prints of a kernel."""
    return "\n".join(
        [
            "ptxas info    : 0 bytes gmem",
            f"ptxas info    : Compiling entry function '{NAME}' for 'sm_90a'",
            *messages,
            f"ptxas info    : Function properties for {NAME}",
            f"    {stack} bytes stack frame, {stores} bytes spill stores,"
            f" {loads} bytes spill loads",
            f"ptxas info    : Used {registers} registers, used 1 barriers",
            "ptxas info    : Compile time = 61.507 ms",
            "",
        ]
    )


WAITS = [
    f"ptxas info    : (C7517) warpgroup.wait is injected in around line {line} by"
    f" compiler to allow use of registers defined by GMMA in function '{NAME}'"
    for line in (309, 282)
]
SERIALIZED = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions"
    " are serialized due to wgmma pipeline crossing function boundary at a function"
    f" call in the function '{NAME}'"
)
IGNORED = (
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable"
    " to determine register count at entry."
)
REFUSED = (
    "ptxas fatal   : (C7602) Insufficient registers (128) to compile instruction at"
    f" line 408 in function {NAME}. Try to compile with register target of 130 or"
    " higher."
)
HARMLESS = "ptxas info    : (C7519) warpgroup.arrive is injected in around line 7"


def test_reads_registers_spills_and_stack():
    report = parse(told(registers=255, stores=1392, loads=1428, stack=936))
    assert report.kernels == (
        Kernel(
            name=NAME,
            registers=255,
            stack_bytes=936,
            spill_store_bytes=1392,
            spill_load_bytes=1428,
        ),
    )
    assert report.messages == ()


def test_reads_codes_among_what_others_print():
    text = "W1129 something of XLA's\n" + told(messages=[*WAITS, HARMLESS]) + "1234\n"
    report = parse(text)
    assert [(m.code, m.input_line) for m in report.messages] == [
        ("C7517", 309),
        ("C7517", 282),
    ]
    assert report.registers == 168
    assert parse("no word of it\n") == Report()


def test_reads_the_messages_that_were_recorded():
    for line in WAITS:
        (message,) = parse(line).messages
        assert message.code == "C7517"
        assert message.severity == "info"
        assert isinstance(message.input_line, int)


def test_reads_the_warning_about_spills_as_their_figures():
    report = parse(
        "ptxas warning : Registers are spilled to local memory in function"
        f" '{NAME}', 944 bytes spill stores, 952 bytes spill loads\n"
        f"ptxas warning : Local memory used for function '{NAME}', size of stack frame:"
        " 936 bytes\n"
    )
    assert report.messages == ()
    assert report.spilled is not None
    assert report.spilled.spill_store_bytes == 944


def test_adds_up_kernels_and_tells_a_message_once():
    one, other = parse(told(154, messages=WAITS)), parse(told(90, messages=WAITS))
    total = one + other
    assert [kernel.registers for kernel in total.kernels] == [154, 90]
    assert total.registers == 154
    assert len(total.messages) == 2


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (told(168), ["registers 168, no spills, SMEM 213,008 bytes"]),
        (
            told(168, stores=1248, loads=1300, stack=1000),
            [
                "registers 168, 1,248 bytes spilled, SMEM 213,008 bytes",
                "ptxas spills registers to memory, 1,248 bytes of stores and 1,300 of"
                " loads: take a smaller tile.m or tile.n; if warp-specialised, a"
                " smaller [schedule] memory_registers leaves the compute warpgroups"
                " more",
            ],
        ),
        (
            told(40, stack=256),
            [
                "registers 40, no spills, SMEM 213,008 bytes",
                "ptxas keeps 256 bytes of every thread in local memory, as for an array"
                " in registers that is indexed at run time",
            ],
        ),
        (
            told(166, messages=WAITS),
            [
                "registers 166, no spills, SMEM 213,008 bytes",
                "ptxas adds waits for wgmma that the kernel does not have (lines 282,"
                " 309 of the PTX) (C7517): its accumulator is used while a wgmma is in"
                " flight; use it only after wgmma_wait(0), or keep it in one plgpu.ACC"
                " over all steps of K",
            ],
        ),
        (
            told(168, messages=[SERIALIZED, IGNORED]),
            [
                "registers 168, no spills, SMEM 213,008 bytes",
                "ptxas serialises wgmma (C7510), due to wgmma pipeline crossing"
                " function boundary at a function call: use the accumulator only after"
                " wgmma_wait(0), and call no function while a wgmma is in flight; take"
                " a smaller tile if registers are short",
                "ptxas ignores setmaxnreg (C7508), unable to determine register count"
                " at entry: [schedule] memory_registers has no effect, and every"
                " warpgroup keeps the registers that the kernel is launched with; raise"
                " memory_registers or take fewer num_compute_wgs",
            ],
        ),
        (
            told(168, messages=["ptxas warning : something new"]),
            [
                "registers 168, no spills, SMEM 213,008 bytes",
                "ptxas warning: something new",
            ],
        ),
    ],
)
def test_notes_name_what_to_change(text, notes):
    assert list(ptxas.notes(parse(text), smem_bytes=213_008)) == notes


def test_tells_why_it_refuses():
    text = f"loc(unknown): error: ptxas exited with 255, output: {REFUSED}\n"
    report = parse(text)
    assert report.refusal == Message(
        severity="fatal", code="C7602", text=REFUSED.partition(") ")[2]
    )
    assert ptxas.describe_refusal(report) == (
        "ptxas: (C7602) Insufficient registers (128) to compile instruction at line 408"
        f" in function {NAME}. Try to compile with register target of 130 or higher:"
        " take a smaller tile.m or tile.n, or fewer num_compute_wgs"
    )
    assert ptxas.describe_refusal(parse(told())) is None


def run_python(text):
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_collects_what_is_printed_below_python_and_passes_it_on():
    done = run_python(
        "import os, sys\n"
        "from kgen.verify.ptxas import Printed\n"
        "print('before')\n"
        "with Printed() as printed:\n"
        "    os.write(1, b'one\\n')\n"
        "    os.write(2, b'two\\n')\n"
        "    print('three')\n"
        "print('after', printed.text.split())\n"
    )
    assert done.stdout == "before\nafter ['one', 'two', 'three']\n"
    assert done.stderr.split() == ["one", "two", "three"]


def test_passes_on_the_last_words_of_a_process_that_is_aborted():
    done = run_python(
        "import os\n"
        "from kgen.verify.ptxas import Printed\n"
        "with Printed():\n"
        "    os.write(2, b'F1129 Check failed\\n')\n"
        "    os.abort()\n"
    )
    assert done.returncode < 0
    assert "F1129 Check failed" in done.stderr

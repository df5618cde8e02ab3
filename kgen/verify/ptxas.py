"""What ptxas says of a kernel: registers, spills, and what it could not do as asked.

Where `MOSAIC_GPU_DUMP_PTXAS` is set, Mosaic GPU prints it to stdout when a kernel is
compiled. What ptxas refuses to compile it tells on stderr.
"""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_KERNEL = re.compile(r"Compiling entry function '([^']*)'")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_MESSAGE = re.compile(
    r"ptxas (?P<severity>info|warning|error|fatal) *: *"
    r"(?:\((?P<code>C\d+)\) *)?(?P<text>.*)"
)
_INPUT_LINE = re.compile(r"\bline (\d+)")
_REASON = re.compile(r"serialized due to (.*?)(?: in (?:the )?function\b|$)")
# An instruction was added for the sake of wgmma, which costs nothing to speak of.
_HARMLESS = ("C7519",)
SETMAXNREG, SERIALIZED, WAIT = "'setmaxnreg' ignored", "serialized", "wait is injected"
INSUFFICIENT, LOCAL_MEMORY = "Insufficient registers", "Local memory used"
DRAIN_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """Something that ptxas found worth telling.

    Attributes:
      severity: `info`, `warning`, `error` or `fatal`.
      code: Its number, such as `C7508`; empty if it has none.
      text: The rest.
    """

    severity: str
    code: str
    text: str

    def __str__(self) -> str:
        return f"({self.code}) {self.text}" if self.code else self.text

    @property
    def input_line(self) -> int | None:
        """The line of the PTX that it is about."""
        found = _INPUT_LINE.search(self.text)
        return int(found[1]) if found else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel:
    """What one kernel takes.

    Attributes:
      name: Its entry function.
      registers: Registers per thread that it is launched with; None if not told.
      stack_bytes: Stack of a thread.
      spill_store_bytes: Bytes that its instructions store for want of registers.
      spill_load_bytes: Bytes that they load again.
    """

    name: str
    registers: int | None = None
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What ptxas said of some kernels.

    Attributes:
      kernels: The kernels, in the order in which they were compiled.
      messages: What is not as asked, each once.
    """

    kernels: tuple[Kernel, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def registers(self) -> int | None:
        """The most registers that one of the kernels takes."""
        return max(
            (k.registers for k in self.kernels if k.registers is not None), default=None
        )

    @property
    def spilled(self) -> Kernel | None:
        """The kernel that spills most, if any does."""
        worst = max(self.kernels, key=lambda k: k.spill_store_bytes, default=None)
        return worst if worst and worst.spill_store_bytes else None

    @property
    def refusal(self) -> Message | None:
        """Why ptxas compiled nothing."""
        bad = (m for m in self.messages if m.severity in ("error", "fatal"))
        return next(bad, None)

    def __add__(self, other: "Report") -> "Report":
        messages = dict.fromkeys(self.messages + other.messages)
        return Report(kernels=self.kernels + other.kernels, messages=tuple(messages))


def parse(text: str) -> Report:
    """Reads what ptxas and whoever else printed; understands ptxas alone."""
    kernels: list[Kernel] = []
    messages: dict[Message, None] = {}
    for line in text.splitlines():
        if found := _KERNEL.search(line):
            kernels.append(Kernel(name=found[1]))
        elif figures := _figures_in(line):
            last = kernels.pop() if kernels else Kernel(name="")
            told = dataclasses.asdict(last) | figures
            kernels.append(Kernel(**told))
        elif (found := _MESSAGE.search(line)) and _is_told(found):
            message = Message(
                severity=found["severity"],
                code=found["code"] or "",
                text=found["text"].strip(),
            )
            messages[message] = None
    return Report(kernels=tuple(kernels), messages=tuple(messages))


def _figures_in(line: str) -> dict[str, int]:
    """Returns the figures of a kernel that a line tells, whatever it is about."""
    figures: dict[str, int] = {}
    if found := _STACK.search(line):
        figures["stack_bytes"] = int(found[1])
    if found := _SPILLS.search(line):
        figures["spill_store_bytes"] = int(found[1])
        figures["spill_load_bytes"] = int(found[2])
    if found := _REGISTERS.search(line):
        figures["registers"] = int(found[1])
    return figures


def _is_told(message: re.Match[str]) -> bool:
    """Whether a message is more than progress, and is not in the figures anyhow."""
    if message["code"] in _HARMLESS or LOCAL_MEMORY in message["text"]:
        return False
    return bool(message["code"]) or message["severity"] != "info"


def notes(report: Report, smem_bytes: int | None = None) -> tuple[str, ...]:
    """Returns a line for each thing that a user should know, with what changes it.

    Args:
      report: What ptxas said.
      smem_bytes: Dynamic SMEM of the kernel, which ptxas does not see.
    """
    figures = [f"registers {report.registers}"] if report.registers is not None else []
    if figures:
        spilled = report.spilled
        store_bytes = spilled.spill_store_bytes if spilled else 0
        figures.append(f"{store_bytes:,} bytes spilled" if spilled else "no spills")
    if smem_bytes is not None:
        figures.append(f"SMEM {smem_bytes:,} bytes")
    found = [", ".join(figures)] if figures else []
    if (spilled := report.spilled) is not None:
        found.append(
            f"ptxas spills registers to memory, {spilled.spill_store_bytes:,} bytes of"
            f" stores and {spilled.spill_load_bytes:,} of loads: take a smaller tile.m"
            " or tile.n; if warp-specialised, a smaller [schedule] memory_registers"
            " leaves the compute warpgroups more"
        )
    elif stack := max((k.stack_bytes for k in report.kernels), default=0):
        found.append(
            f"ptxas keeps {stack:,} bytes of every thread in local memory, as for an"
            " array in registers that is indexed at run time"
        )
    waits = [m for m in report.messages if WAIT in m.text]
    if waits:
        found.append(_waits(waits))
    found += [_note(m) for m in report.messages if WAIT not in m.text]
    return tuple(dict.fromkeys(found))


def _waits(messages: list[Message]) -> str:
    lines = sorted({m.input_line for m in messages if m.input_line is not None})
    where = f" (lines {', '.join(map(str, lines))} of the PTX)" if lines else ""
    code = f" ({messages[0].code})" if messages[0].code else ""
    return (
        f"ptxas adds waits for wgmma that the kernel does not have{where}{code}: its"
        " accumulator is used while a wgmma is in flight; use it only after"
        " wgmma_wait(0), or keep it in one plgpu.ACC over all steps of K"
    )


def _note(message: Message) -> str:
    """Returns a message with what to change, where that is known."""
    code = f" ({message.code})" if message.code else ""
    if SETMAXNREG in message.text:
        why = message.text.partition(SETMAXNREG)[2].strip(" ;.")
        return (
            f"ptxas ignores setmaxnreg{code}{f', {why}' * bool(why)}: [schedule]"
            " memory_registers has no effect, and every warpgroup keeps the registers"
            " that the kernel is launched with; raise memory_registers or take fewer"
            " num_compute_wgs"
        )
    if SERIALIZED in message.text:
        reason = _REASON.search(message.text)
        return (
            f"ptxas serialises wgmma{code}{f', due to {reason[1]}' if reason else ''}:"
            " use the accumulator only after wgmma_wait(0), and call no function while"
            " a wgmma is in flight; take a smaller tile if registers are short"
        )
    if INSUFFICIENT in message.text:
        return (
            f"ptxas: {str(message).rstrip('.')}: take a smaller tile.m or tile.n, or fewer"
            " num_compute_wgs"
        )
    return f"ptxas {message.severity}: {message}"


def describe_refusal(report: Report) -> str | None:
    """Says why ptxas compiled nothing, with what to change."""
    return _note(report.refusal) if report.refusal else None


class Printed:
    """Collects what this process prints, from C++ too; stderr still gets all of it.

    A process of its own passes it on, so that the last words of a process that is
    aborted in between are not lost.

    Attributes:
      text: What was printed, once the block is left.
    """

    def __init__(self) -> None:
        self.text = ""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Printed":
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            file = Path(directory, "printed")
            pipe = stack.enter_context(self._tee(file))
            stack.enter_context(_outputs_to(pipe))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _tee(self, file: Path) -> Iterator[int]:
        """Yields what writes to a file and to stderr; reads the file at the end."""
        tee = subprocess.Popen(["tee", str(file)], stdin=subprocess.PIPE, stdout=2)
        assert tee.stdin is not None
        try:
            yield tee.stdin.fileno()
        finally:
            tee.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # A process that was started meanwhile may hold on to its stdout.
                tee.wait(DRAIN_SECONDS)
            tee.kill()
            tee.wait()
            self.text = file.read_text("utf-8", errors="replace")


@contextlib.contextmanager
def _outputs_to(descriptor: int) -> Iterator[None]:
    """Lets stdout and stderr of this process lead elsewhere, below Python's own."""
    _flush()
    kept = {output: os.dup(output) for output in (1, 2)}
    try:
        for output in kept:
            os.dup2(descriptor, output)
        yield
    finally:
        _flush()
        for output, before in kept.items():
            os.dup2(before, output)
            os.close(before)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

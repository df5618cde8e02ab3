"""What `kgen bench` found, as frozen values that make the round trip through JSON."""

import dataclasses
import json

from kgen.arch import ARCHS
from kgen.layouts import LAYOUTS
from kgen.measure.decode import one_of
from kgen.measure.problem import Problem
from kgen.measure.timing import Samples
from kgen.roofline import Waves, roofline
from kgen.verify.request import DTYPES, OUT_DTYPES, LevelResult

KIND = "kgen bench"
FORMAT = 1
MEASURED, WRONG, FAILED, REFUSED = "measured", "wrong", "failed", "refused"
STATUSES = (MEASURED, WRONG, FAILED, REFUSED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """What a figure depends on beside the kernel.

    Attributes:
      device: The GPU's name.
      compute_capability: Its architecture, such as `9.0`.
      driver: Version of its driver.
      cuda: Version of CUDA that JAX has.
      jax: Version of JAX.
    """

    device: str
    compute_capability: str
    driver: str
    cuda: str
    jax: str

    def __post_init__(self) -> None:
        for name, text in dataclasses.asdict(self).items():
            if not text.isprintable():
                raise ValueError(f"{name} must be printable, got {text!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """How long one product took.

    Attributes:
      us: Microseconds of kernel time per call, round by round.
      median_us: Their median.
      spread: Half their interquartile range over the median.
      tflops: TFLOP/s at the median.
      tb_per_s: TB/s at the median, of the bytes that must move once.
      roofline: The least time that the GPU needs over the median; null if its rates are
        not known.
    """

    us: tuple[float, ...]
    median_us: float
    spread: float
    tflops: float
    tb_per_s: float
    roofline: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """A configuration that was tried for a peer.

    Attributes:
      configuration: What it is.
      us: Microseconds per call; null if it could not be measured.
      detail: Why it could not.
    """

    configuration: str
    us: float | None
    detail: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Peer:
    """What became of a peer, in the same rounds.

    Attributes:
      name: Which.
      timing: How long it took; null if it could not be measured.
      ratio: Its median over the kernel's: above 1 the kernel is faster.
      configuration: At which configuration it is fastest; empty if it has none.
      detail: Why it could not be measured, or what is to be known of it.
      tried: Every configuration that was tried.
    """

    name: str
    timing: Timing | None
    ratio: float | None
    configuration: str
    detail: str
    tried: tuple[Tried, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What became of one kernel at one size.

    Attributes:
      target: What it is called on the command line.
      name: The module's name.
      path: Its file; empty if it has none.
      shape: m, n and k.
      layout: `nn`, or `nt` if B is [n, k].
      operand_dtype: Elements of A.
      out_dtype: Elements of the result.
      arch: The architecture that it is made for.
      source_digest: Digest of the module's code, as it was run: its text without the
        digests in its header.
      spec_digest: Digest of its spec, as its header says; empty without a header.
      text_digest: Digest of the text that kgen wrote, as its header says.
      status: `measured`; `wrong` if what it returns is not right; `refused` if the
        module does not take these sizes; `failed` if it raised, hung, died or did not
        pass `kgen verify`.
      detail: What was wrong.
      checks: What was proven before it was timed.
      verification: Levels of `kgen verify` that were run in the same run.
      registers: Registers per thread, as ptxas told; null if it did not.
      spilled_bytes: Bytes of stores for want of registers.
      notes: What ptxas found worth telling.
      timing: How long it took; null if it was not measured.
      peers: What it was measured against.
      b_dtype: Elements of B; empty if they are A's.
      batch: Leading dimensions of A, B and the result.
    """

    target: str
    name: str
    path: str
    shape: tuple[int, ...]
    layout: str
    operand_dtype: str
    out_dtype: str
    arch: str
    source_digest: str
    spec_digest: str
    text_digest: str
    status: str
    detail: str
    checks: tuple[str, ...]
    verification: tuple[LevelResult, ...]
    registers: int | None
    spilled_bytes: int | None
    notes: tuple[str, ...]
    timing: Timing | None
    peers: tuple[Peer, ...]
    b_dtype: str = ""
    batch: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        one_of("status", self.status, STATUSES)
        if (self.timing is not None) != (self.status == MEASURED):
            raise ValueError(
                f"a kernel that is {self.status} must have a timing or not"
            )
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError("shape must be three positive sizes")
        one_of("arch", self.arch, tuple(ARCHS))
        one_of("layout", self.layout, LAYOUTS)
        one_of("operand_dtype", self.operand_dtype, DTYPES)
        one_of("b_dtype", self.b_dtype or DTYPES[0], DTYPES)
        one_of("out_dtype", self.out_dtype, OUT_DTYPES)

    @property
    def problem(self) -> Problem:
        """What it computes."""
        m, n, k = self.shape
        return Problem(
            shape=(m, n, k),
            operand_dtype=self.operand_dtype,
            b_dtype=self.b_dtype,
            out_dtype=self.out_dtype,
            layout=self.layout,
            batch=self.batch,
        )

    @property
    def size(self) -> str:
        """Its sizes as `--shape` takes them."""
        batch = "".join(f"{size}x" for size in self.batch)
        return batch + ",".join(map(str, self.shape))

    def peer(self, name: str) -> Peer | None:
        """Returns what became of a peer, if it was asked for."""
        return next((peer for peer in self.peers if peer.name == name), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """The JSON that `kgen bench --json` writes.

    Attributes:
      kind: `kgen bench`.
      format: Version of this format.
      kgen: Version of kgen.
      machine: The GPU and the software.
      rounds: How often each kernel was timed, in turns with its peers.
      results: The kernels, in the order in which they were asked for.
    """

    kind: str
    format: int
    kgen: str
    machine: Machine
    rounds: int
    results: tuple[Record, ...]

    def __post_init__(self) -> None:
        if not self.kgen.isprintable():
            raise ValueError(f"kgen must be printable, got {self.kgen!r}")

    def to_json(self) -> str:
        """Returns the document as JSON."""
        value = dataclasses.asdict(self)
        return json.dumps(value, indent=1, allow_nan=False) + "\n"


def timing_of(
    samples: Samples, problem: Problem, arch_name: str, device: str
) -> Timing:
    """Returns the figures of samples."""
    arch, work, us = ARCHS[arch_name], problem.work, samples.median
    even = Waves(ctas=arch.num_sms, slots=arch.num_sms, num_sms=arch.num_sms)
    least = roofline(arch, work, even, problem.operand_dtype).roofline_us
    return Timing(
        us=tuple(round(each, 4) for each in samples.us),
        median_us=round(us, 4),
        spread=round(samples.spread, 6),
        tflops=round(work.flops / us / 1e6, 2),
        tb_per_s=round(work.minimal_bytes / us / 1e6, 4),
        roofline=round(least / us, 4) if device == arch.device else None,
    )


def schema_text() -> str:
    """Returns the JSON Schema of what `kgen bench --json` writes."""
    import pydantic

    schema = pydantic.TypeAdapter(Document).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **schema}, indent=2) + "\n"

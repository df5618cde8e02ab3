"""Results of `kgen bench` as SVG: the roofline, and a bar for every ratio.

Written by hand, so that the same results give the same bytes anywhere. Colours follow
the reader's light or dark theme.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from kgen.arch import ARCHS, Arch
from kgen.emit.replace import check_own, replace
from kgen.emit.write import Output
from kgen.measure.results import Document, Record

ROOFLINE, RATIOS = "roofline.svg", "ratios.svg"
COMMAND = "kgen bench --plot"
WIDTH = 760
LEFT, RIGHT = 70, 20
LEAST_TFLOPS = 0.01
"""The least that results tell apart from nothing."""
_COLOURS = ("#2563eb", "#d97706", "#059669")
_STYLE = """
    svg { background: #ffffff; color: #1f2328; font: 12px system-ui, sans-serif; }
    text { fill: currentColor; }
    .grid { stroke: currentColor; stroke-opacity: 0.15; }
    .roof, .even { stroke: currentColor; fill: none; }
    .even { stroke-dasharray: 4 3; }
    @media (prefers-color-scheme: dark) { svg { background: #0d1117; color: #e6edf3; } }
"""


def write_plots(document: Document, directory: Path) -> None:
    """Writes `roofline.svg` and `ratios.svg` to a directory, which is made.

    Raises:
      FileError: that cannot be done, or files of somebody else are in the way.
    """
    drawn = {ROOFLINE: roofline_svg(document), RATIOS: ratios_svg(document)}
    replace(
        [Output(path=directory / name, text=text) for name, text in drawn.items()],
        _is_own,
        COMMAND,
    )


def check_place(directory: Path) -> None:
    """Refuses a directory in which files of somebody else are in the way.

    Raises:
      FileError: there is one, or it cannot be read.
    """
    for name in (ROOFLINE, RATIOS):
        check_own(directory / name, _is_own, COMMAND)


def _is_own(text: str) -> bool:
    return f"<style>{_STYLE}" in text


def roofline_svg(document: Document) -> str:
    """Returns kernels over intensity and rate, below the roof of their GPU.

    The roof is that of the card whose rates `kgen.arch` has.
    """
    records = [record for record in document.results if record.timing]
    arch = ARCHS[records[0].arch if records else next(iter(ARCHS))]
    chart = _Roofline(arch, records)
    dtypes: dict[float, list[str]] = {}
    for dtype in dict.fromkeys(record.operand_dtype for record in records):
        dtypes.setdefault(arch.flops_per_s[dtype], []).append(dtype)
    roofs = [chart.roof(peak, ", ".join(names)) for peak, names in dtypes.items()]
    return _svg(
        f"{document.machine.device}: rate of kernels below the roofline",
        chart.height,
        [*chart.grid(), *roofs, *chart.points()],
    )


def _drawn(tflops: float) -> float:
    """Returns where a rate is drawn: results round what is very slow to nothing."""
    return max(tflops, LEAST_TFLOPS)


class _Roofline:
    """Places rates on logarithmic axes."""

    top, bottom, height = 50, 60, 440

    def __init__(self, arch: Arch, records: Sequence[Record]) -> None:
        self._arch, self._records = arch, records
        work = [record.problem.work.intensity for record in records] or [1.0]
        rates = [_drawn(r.timing.tflops) for r in records if r.timing] or [1.0]
        peak = max(arch.flops_per_s.values()) / 1e12
        # Whole decades around everything that is drawn.
        self._x = math.floor(math.log10(min(work))), math.ceil(
            math.log10(max(work) * 2)
        )
        self._y = math.floor(math.log10(min(rates))), math.ceil(math.log10(peak))

    def x(self, intensity: float) -> float:
        low, high = self._x
        share = (math.log10(intensity) - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, tflops: float) -> float:
        low, high = self._y
        share = (math.log10(_drawn(tflops)) - low) / (high - low)
        return (
            self.height - self.bottom - share * (self.height - self.top - self.bottom)
        )

    def grid(self) -> Iterator[str]:
        """Yields a line for every decade, and what the axes are."""
        lower = self.height - self.bottom
        for power in range(self._x[0], self._x[1] + 1):
            x = self.x(10.0**power)
            yield _line(x, self.top, x, lower)
            yield _text(x, lower + 18, _power(power), "middle")
        for power in range(self._y[0], self._y[1] + 1):
            y = self.y(10.0**power)
            yield _line(LEFT, y, WIDTH - RIGHT, y)
            yield _text(LEFT - 8, y + 4, _power(power), "end")
        yield _text(
            WIDTH / 2, self.height - 14, "FLOP per byte that must move", "middle"
        )
        yield _text(LEFT - 50, self.top - 12, "TFLOP/s")

    def roof(self, peak: float, dtypes: str) -> str:
        """Returns the roof of the dtypes that have this peak rate in FLOP/s."""
        memory = self._arch.hbm_bytes_per_s
        left, right = 10.0 ** self._x[0], 10.0 ** self._x[1]
        corner = min(max(peak / memory, left), right)
        # From where the slope enters the picture.
        lowest = 10.0 ** self._y[0] * 1e12
        start = min(max(left, lowest / memory), corner)
        points = [(start, start * memory), (corner, corner * memory), (right, peak)]
        told = " ".join(
            f"{self.x(i):.1f},{self.y(min(rate, peak) / 1e12):.1f}"
            for i, rate in points
        )
        label = f"{dtypes}, {self._arch.device}: {peak / 1e12:g} TFLOP/s"
        return f'<polyline class="roof" points="{told}"/>' + _text(
            WIDTH - RIGHT, self.y(peak / 1e12) - 6, label, "end"
        )

    def points(self) -> Iterator[str]:
        """Yields a point for every kernel, named where the mouse rests."""
        for record in self._records:
            assert record.timing is not None
            x, y = self.x(record.problem.work.intensity), self.y(record.timing.tflops)
            title = (
                f"{record.name} at {record.size}: {record.timing.tflops:.0f} TFLOP/s"
            )
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_COLOURS[0]}">'
                f"<title>{escape(title)}</title></circle>"
            )


def ratios_svg(document: Document) -> str:
    """Returns a bar for every kernel and peer: the peer's time over the kernel's."""
    rows = [
        (record, peer.name, peer.ratio)
        for record in document.results
        for peer in record.peers
        if peer.ratio is not None
    ]
    names = list(dict.fromkeys(name for _, name, _ in rows))
    widest = max([1.0, *(ratio for _, _, ratio in rows)]) * 1.1
    left, step, top = 300, 22, 64
    scale = (WIDTH - left - 60) / widest
    height = top + step * len(rows) + 30
    parts = [
        f'<rect x="{left + 120 * i}" y="34" width="10" height="10" fill="{_colour(i)}"/>'
        + _text(left + 120 * i + 15, 43, name)
        for i, name in enumerate(names)
    ]
    for index, (record, name, ratio) in enumerate(rows):
        y, length = top + step * index, ratio * scale
        colour = _colour(names.index(name))
        parts += [
            _text(left - 8, y + 13, f"{record.name} at {record.size}", "end"),
            f'<rect x="{left}" y="{y + 2}" width="{length:.1f}" height="{step - 6}"'
            f' fill="{colour}"/>',
            _text(left + length + 5, y + 13, f"{ratio:.3f}"),
        ]
    even = left + scale
    parts.append(_line(even, top - 6, even, height - 24, "even"))
    parts.append(_text(even, height - 10, "1: as fast", "middle"))
    title = f"{document.machine.device}: time of others over the kernel's"
    return _svg(title, height, parts)


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _power(power: int) -> str:
    return f"{10.0**power:g}"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(f"  {part}" for part in parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" \
viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">
  <style>{_STYLE}  </style>
  <text x="20" y="22" font-weight="bold">{escape(title)}</text>
{body}
</svg>
"""

"""Results of `kgen bench` as tables."""

from collections.abc import Sequence

from kgen.measure.compare import Change
from kgen.measure.results import MEASURED, Document, Peer, Record
from kgen.tables import Table


def results_table(document: Document) -> Table:
    """Returns what was found, a row for each kernel and size."""
    names = list(dict.fromkeys(p.name for r in document.results for p in r.peers))
    heads = ("kernel", "m,n,k", "us", "+-", "TFLOP/s", "TB/s", "roofline")
    machine = document.machine
    rows = [_row(record, names) for record in document.results]
    return Table(
        title=f"{machine.device}, driver {machine.driver}, CUDA {machine.cuda}, jax"
        f" {machine.jax}; {document.rounds} rounds",
        columns=(*heads, *(f"{name} / ours" for name in names), ""),
        rows=tuple(rows),
        right=frozenset(range(2, len(heads) + len(names))),
        note="us: median of kernel time per call; +-: half the interquartile range of"
        " the rounds; TB/s: of the bytes that must move once; NAME / ours: time of a peer"
        " in the same rounds over the kernel's, above 1 the kernel is faster.",
    )


def notes(document: Document) -> list[str]:
    """Returns what does not fit into the table, a line or more each."""
    found = []
    for record in document.results:
        place = f"{record.target} at {record.size}"
        if record.status != MEASURED:
            found.append(f"{place}: {record.status}: {record.detail}")
        found += [f"{place}: {note}" for note in record.notes]
        found += [
            f"{place}: {peer.name} not measured: {peer.detail}"
            for peer in record.peers
            if peer.timing is None
        ]
    return found


def _row(record: Record, names: Sequence[str]) -> tuple[str, ...]:
    head = (record.name, record.size)
    timing = record.timing
    if timing is None:
        return (*head, *([""] * (5 + len(names))), record.status.upper())
    roofline = "" if timing.roofline is None else f"{timing.roofline:.0%}"
    return (
        *head,
        f"{timing.median_us:.1f}",
        f"{timing.spread:.1%}",
        f"{timing.tflops:.0f}",
        f"{timing.tb_per_s:.2f}",
        roofline,
        *(_ratio(record.peer(name)) for name in names),
        _ptxas(record),
    )


def _ratio(peer: Peer | None) -> str:
    return "" if peer is None or peer.ratio is None else f"{peer.ratio:.3f}"


def _ptxas(record: Record) -> str:
    return f"spills {record.spilled_bytes} bytes" if record.spilled_bytes else ""


def changes_table(changes: Sequence[Change]) -> Table:
    """Returns what changed from one run to another."""
    names = list(dict.fromkeys(name for change in changes for name, _ in change.peers))
    heads = ("kernel", "m,n,k", "before us", "now us", "change", "noise")
    rows = []
    for change in changes:
        peers = dict(change.peers)
        rows.append(
            (
                change.name,
                change.size,
                _us(change.before_us),
                _us(change.now_us),
                "" if change.share is None else f"{change.share:+.1%}",
                (
                    f"{change.noise_us / change.before_us:.1%}" * bool(change.noise_us)
                    if change.before_us
                    else ""
                ),
                *(f"{peers[name]:+.1%}" if name in peers else "" for name in names),
                change.verdict + (f" ({change.remark})" if change.remark else ""),
            )
        )
    return Table(
        title="",
        columns=(*heads, *names, ""),
        rows=tuple(rows),
        right=frozenset(range(2, len(heads) + len(names))),
        note="noise: what the medians must differ by to count as changed; of a peer, how"
        " its own time changed.",
    )


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"

"""What became faster or slower from one run to another, and what is noise.

Every run has the times of all its rounds. The noise of a median is taken as half the
interquartile range of its rounds, so half of all rounds are that close to it. A change
counts if the medians are further apart than the noise of both together, and than
`LEAST` of the earlier one: no two runs agree better than that, whatever their rounds.
"""

import dataclasses
from collections.abc import Iterator

from kgen.errors import UsageError
from kgen.measure.results import MEASURED, Document, Record, Timing

LEAST = 0.005
"""Share of a median below which nothing counts as a change."""

FASTER, SLOWER, SAME = "faster", "slower", "same"
BROKEN, MENDED = "no longer measured", "measured again"
ONLY_BEFORE, ONLY_NOW, NEVER = (
    "not measured now",
    "not measured before",
    "never measured",
)
_BAD = (SLOWER, BROKEN)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """What became of one kernel at one size.

    Attributes:
      name: The module.
      size: m, n and k.
      verdict: One of the above.
      before_us: Earlier median in microseconds; None if there is none.
      now_us: The later one.
      noise_us: What they must differ by to count as changed.
      peers: By how much each peer's median changed, as a share of the earlier one.
      remark: What may explain it.
    """

    name: str
    size: str
    verdict: str
    before_us: float | None = None
    now_us: float | None = None
    noise_us: float = 0.0
    peers: tuple[tuple[str, float], ...] = ()
    remark: str = ""

    @property
    def share(self) -> float | None:
        """Change of the median as a share of the earlier one."""
        if self.before_us is None or self.now_us is None:
            return None
        return self.now_us / self.before_us - 1

    @property
    def is_bad(self) -> bool:
        """Whether it is slower, or not to be measured any more."""
        return self.verdict in _BAD


def noise_us(before: Timing, now: Timing) -> float:
    """Returns how far two medians must be apart to count as different."""
    both = before.spread * before.median_us + now.spread * now.median_us
    return max(both, LEAST * before.median_us)


def verdict(before: Timing, now: Timing) -> str:
    """Returns whether `now` is faster, slower or the same."""
    if abs(now.median_us - before.median_us) <= noise_us(before, now):
        return SAME
    return SLOWER if now.median_us > before.median_us else FASTER


def check_machines(before: Document, now: Document, names: tuple[str, str]) -> None:
    """Refuses to compare what two GPUs did.

    Raises:
      UsageError: they are not of the same kind.
    """
    told = [
        f"{document.machine.device} ({document.machine.compute_capability})"
        for document in (before, now)
    ]
    if told[0] != told[1]:
        raise UsageError(
            f"times of different GPUs cannot be compared: {names[0]} is of a {told[0]},"
            f" {names[1]} of a {told[1]}\n"
            f"  hint: measure again on a {before.machine.device}"
        )


def remarks(before: Document, now: Document) -> list[str]:
    """Returns what else differs between two runs on the same kind of GPU."""
    pairs = [
        (name, getattr(before.machine, name), getattr(now.machine, name))
        for name in ("driver", "cuda", "jax")
    ]
    pairs.append(("kgen", before.kgen, now.kgen))
    return [f"{name} {old} before, {new} now" for name, old, new in pairs if old != new]


def compare(before: Document, now: Document) -> list[Change]:
    """Returns what became of every kernel and size of either run."""
    return list(_changes(before, now))


def _changes(before: Document, now: Document) -> Iterator[Change]:
    old = {_key(record): record for record in before.results}
    new = {_key(record): record for record in now.results}
    for key in [*old, *(key for key in new if key not in old)]:
        yield _change(old.get(key), new.get(key))


def _key(record: Record) -> tuple[object, ...]:
    dtypes = (*record.problem.operand_dtypes, record.out_dtype)
    return (record.name, record.batch, record.shape, record.layout, *dtypes)


def _change(old: Record | None, new: Record | None) -> Change:
    either = new or old
    assert either is not None
    before, now = (each and each.timing for each in (old, new))
    if before and now and old and new:
        return Change(
            name=new.name,
            size=new.size,
            verdict=verdict(before, now),
            before_us=before.median_us,
            now_us=now.median_us,
            noise_us=noise_us(before, now),
            peers=tuple(_peers(old, new)),
            remark="" if old.source_digest == new.source_digest else "another text",
        )
    return Change(
        name=either.name,
        size=either.size,
        verdict=_without_both(old, new),
        before_us=before.median_us if before else None,
        now_us=now.median_us if now else None,
        remark=f"{new.status}: {new.detail}" if new and not now else "",
    )


def _without_both(old: Record | None, new: Record | None) -> str:
    if new is None:
        return ONLY_BEFORE
    if old is None:
        return ONLY_NOW
    if new.status == MEASURED:
        return MENDED
    return BROKEN if old.status == MEASURED else NEVER


def _peers(old: Record, new: Record) -> Iterator[tuple[str, float]]:
    for peer in new.peers:
        before = old.peer(peer.name)
        if before and before.timing and peer.timing:
            yield peer.name, peer.timing.median_us / before.timing.median_us - 1

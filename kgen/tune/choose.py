"""Which candidate wins: by measured time, and where noise hides that, by simplicity.

Candidates whose times lie within the tie band of the fastest are equal. Among them a key
that no measurement changes decides, so that a second run picks the same.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence

from kgen.tune.prune import Legal
from kgen.tune.records import Record

LEAST_BAND = 0.005
# Spreads of the fastest candidates that tell the noise.
FASTEST = 10
NOISES = 2.0
MOST_FINALISTS = 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranked:
    """Measured candidates, the fastest first.

    Attributes:
      records: The records.
      band: How much slower than the fastest one is as good, as a ratio.
    """

    records: tuple[Record, ...]
    band: float

    @property
    def tied(self) -> tuple[Record, ...]:
        """The records within the band of the fastest."""
        if not self.records:
            return ()
        limit = score(self.records[0]) * (1 + self.band)
        return tuple(record for record in self.records if score(record) <= limit)


def score(record: Record) -> float:
    """Returns what a candidate is judged by: its time over XLA's in the same rounds.

    The clock drifts during a search, and both feel it. Without a peer, the time alone.
    """
    us = statistics.median(record.us)
    return us / statistics.median(record.peer_us) if record.peer_us else us


def noise(record: Record) -> float:
    """Returns half the interquartile range of a record's rounds over their median."""
    pairs = zip(record.us, record.peer_us, strict=False)
    rounds = [ours / peer for ours, peer in pairs] or list(record.us)
    if len(rounds) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(rounds, n=4, method="inclusive")
    return (high - low) / 2 / middle


def rank(records: Iterable[Record]) -> Ranked:
    """Returns measured candidates in the order of their times, and the tie band."""
    ordered = tuple(sorted(records, key=lambda r: (score(r), r.digest)))
    spreads = [noise(record) for record in ordered[:FASTEST]]
    band = NOISES * statistics.median(spreads) if spreads else 0.0
    return Ranked(records=ordered, band=max(LEAST_BAND, band))


def finalists(ranked: Ranked, known: Mapping[str, Legal]) -> tuple[Record, ...]:
    """Returns those that are measured again: the tied ones, the simplest first if many.

    The fastest is always among them.
    """
    tied = ranked.tied
    if len(tied) <= MOST_FINALISTS:
        return tied
    fastest, *others = tied
    others.sort(key=lambda record: simplicity(known[record.digest]))
    return fastest, *others[: MOST_FINALISTS - 1]


def winner(ranked: Ranked, known: Mapping[str, Legal]) -> Record | None:
    """Returns the simplest of the tied candidates; None if nothing was measured."""
    return min(
        ranked.tied,
        key=lambda record: simplicity(known[record.digest]),
        default=None,
    )


def simplicity(legal: Legal) -> tuple[int, int, str]:
    """Returns the second key: features of the schedule, SMEM bytes, name."""
    features = sum(map(_is_feature, legal.candidate.values))
    smem = getattr(legal.plan, "smem", None)
    return features, getattr(smem, "total", 0), legal.candidate.label


def _is_feature(pair: tuple[str, object]) -> bool:
    """Whether a value makes a kernel more than the plain one of its schedule."""
    key, value = pair
    table, _, name = key.partition(".")
    if table == "cluster":
        return value not in (None, 1)
    return name in ("persistent", "split_k", "swap_operands") and bool(value)


def best_first(legal: Sequence[Legal], us: Mapping[str, float]) -> list[Legal]:
    """Returns candidates in the order in which they are measured.

    Args:
      legal: The candidates.
      us: What the cost model predicts, by digest. Those that it cannot tell apart come
        in the order of the space.
    """
    return sorted(legal, key=lambda each: us[each.digest])

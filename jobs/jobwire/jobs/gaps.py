"""Which seqs of a job were passed over, as ranges: a gap costs the same however wide it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Gaps:
    """A set of seqs that grows at its upper end; of more than `most` it keeps the newest."""

    __slots__ = ("_count", "_firsts", "_lasts", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        # Ranges in order, both ends included.
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __len__(self) -> int:
        return self._count

    def __contains__(self, seq: object) -> bool:
        return type(seq) is int and self._place(seq) is not None

    def __iter__(self) -> Iterator[int]:
        """Yield the seqs, lowest first."""
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def within(self, first: int, last: int) -> tuple[int, int]:
        """Return the lowest seq of the set from `first` to `last`, and their number: (0, 0) for none."""
        place = bisect_left(self._lasts, first)
        lowest = count = 0
        while place < len(self._firsts) and self._firsts[place] <= last:
            low = max(first, self._firsts[place])
            lowest = lowest or low
            count += min(last, self._lasts[place]) - low + 1
            place += 1
        return lowest, count

    def open(self, first: int, last: int) -> None:
        """Add `first` to `last`, which lie above all others; an empty range adds nothing."""
        first = max(first, last - self._most + 1)
        if first > last:
            return
        self._firsts.append(first)
        self._lasts.append(last)
        self._count += last - first + 1
        self._shrink()

    def close(self, seq: int) -> None:
        """Take `seq` out, where it is there."""
        place = self._place(seq)
        if place is None:
            return
        first, last = self._firsts[place], self._lasts[place]
        rest = [(low, high) for low, high in ((first, seq - 1), (seq + 1, last)) if low <= high]
        self._firsts[place : place + 1] = [low for low, _ in rest]
        self._lasts[place : place + 1] = [high for _, high in rest]
        self._count -= 1

    def _place(self, seq: int) -> int | None:
        place = bisect_right(self._firsts, seq) - 1
        return place if place >= 0 and seq <= self._lasts[place] else None

    def _shrink(self) -> None:
        gone = 0
        while self._count > self._most:
            surplus = self._count - self._most
            width = self._lasts[gone] - self._firsts[gone] + 1
            if width > surplus:
                self._firsts[gone] += surplus
                self._count -= surplus
                break
            self._count -= width
            gone += 1
        del self._firsts[:gone], self._lasts[:gone]

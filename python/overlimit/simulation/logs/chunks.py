"""A file in pieces of whole lines, each of which fits in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from overlimit.simulation.logs.files import CutFile, bytes_of

_CHUNK = 4 << 20
_LONGEST_LINE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEPT_OF_LONG_LINE = 1000


class Chunk(NamedTuple):
    """Whole lines of a file, and the number of the first, from 1."""

    data: bytes
    first: int

    def lines(self) -> list[str]:
        """Return its lines without their ends."""
        lines = decoded(self.data).split("\n")
        if not lines[-1]:
            lines.pop()
        return [line.removesuffix("\r") for line in lines] if b"\r" in self.data else lines


def decoded(data: bytes) -> str:
    r"""Return UTF-8 as text, with ``\xff`` for each byte that is none."""
    return data.decode("utf-8", "backslashreplace")


class ChunkReader:
    """Reads a file, which may be compressed, chunk by chunk in constant memory.

    ``advance`` is called with how many bytes have been read since the last time, ``bad`` with the number, the
    text and the reason of each line that cannot be held in memory or is cut.
    """

    def __init__(
        self, path: Path, advance: Callable[[int], object], bad: Callable[[int, str, str], None]
    ) -> None:
        self._path, self._advance, self._bad = path, advance, bad
        self._next_line = 1
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._in_long_line = False

    def __iter__(self) -> Iterator[Chunk]:
        try:
            for piece in bytes_of(self._path, self._advance):
                yield from self._add(piece)
        except CutFile as cut:
            yield from self._whole_lines()
            self._bad(self._next_line, decoded(self._rest()[:_KEPT_OF_LONG_LINE]), str(cut))
            return
        yield from self._whole_lines()
        if rest := self._rest():
            yield self._chunk(rest)

    def _add(self, piece: bytes) -> Iterator[Chunk]:
        if self._in_long_line:
            _, newline, piece = piece.partition(b"\n")
            self._in_long_line = not newline
            self._next_line += bool(newline)
        self._pending.append(piece)
        self._pending_size += len(piece)
        if self._pending_size >= _CHUNK:
            yield from self._whole_lines()
            self._skip_long_line()

    def _whole_lines(self) -> Iterator[Chunk]:
        """Yield the lines that have come to their end; what follows stays."""
        data = b"".join(self._pending)
        end = data.rfind(b"\n") + 1
        self._pending, self._pending_size = [data[end:]], len(data) - end
        if end:
            yield self._chunk(data[:end])

    def _skip_long_line(self) -> None:
        if self._pending_size > _LONGEST_LINE:
            text = decoded(self._rest()[:_KEPT_OF_LONG_LINE])
            self._bad(self._next_line, text, f"the line is longer than {_LONGEST_LINE:,} bytes")
            self._in_long_line = True

    def _rest(self) -> bytes:
        rest = b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        return rest

    def _chunk(self, data: bytes) -> Chunk:
        first, self._next_line = self._next_line, self._next_line + data.count(b"\n")
        return Chunk(data.removeprefix(_BYTE_ORDER_MARK) if first == 1 else data, first)

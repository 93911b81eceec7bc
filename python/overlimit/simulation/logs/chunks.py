"""The files of a log, decompressed, in pieces of whole lines, each of which fits in memory."""

from __future__ import annotations

import bz2
import glob
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.optional import loaded, required

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_PIECE = 4 << 20
_WINDOW = 1 << 16
# A compressed piece becomes up to a thousand times as much.
_COMPRESSED_PIECE = 1 << 14
_GZIP = 31


class CutFile(Exception):
    """A compressed file ends early, or goes on with what is not its format."""


def files_of(path: Paths) -> list[Path]:
    """Return the files meant by a path, several, or a pattern; raise FileNotFoundError if there is none."""
    if isinstance(path, (str, os.PathLike)):
        return _files_of_one(os.path.expanduser(path))
    if not isinstance(path, Iterable):
        raise TypeError(
            f"path must be a file such as 'access.log', several, or a pattern, not {short_repr(path)}"
        )
    files = [file for each in path for file in files_of(each)]
    if not files:
        raise FileNotFoundError("no files to read: the list is empty")
    return files


def _files_of_one(path: str) -> list[Path]:
    if Path(path).exists() or not glob.has_magic(path):
        return [Path(path)]
    files = sorted(Path(each) for each in glob.glob(path, recursive=True) if not Path(each).is_dir())
    if not files:
        raise FileNotFoundError(f"no file is called like {path!r}")
    return files


def bytes_of(path: Path, advance: Callable[[int], object]) -> Iterator[bytes]:
    """Yield what is in a file, decompressed if its name or its beginning says that it is compressed.

    ``advance`` is called with how many bytes of the file have been read since the last time. Raises CutFile
    if it ends early, once all that could be decompressed was yielded, and OSError if it cannot be read.
    """
    with path.open("rb") as file:
        begins = file.peek(_LONGEST_MAGIC)
        named = (ending for magic, ending in _MAGICS.items() if begins.startswith(magic))
        make = COMPRESSIONS.get(path.suffix.lower()) or COMPRESSIONS.get(next(named, ""))
        if make:
            yield from _decompressed(_pieces(file, lambda: _COMPRESSED_PIECE, advance), make)
        else:
            yield from _pieces(file, lambda: _size_of_lines(file), advance)


def beginning_of(path: Path) -> bytes:
    """Return what a file begins with, decompressed; nothing if it is none, or cannot be decompressed."""
    if not path.is_file():  # of others what was read is gone
        return b""
    try:
        return next(bytes_of(path, lambda count: None), b"").removeprefix(_BYTE_ORDER_MARK)
    except CutFile:
        return b""


def _pieces(
    file: BinaryIO, next_size: Callable[[], int], advance: Callable[[int], object]
) -> Iterator[bytes]:
    while piece := file.read(next_size()):
        advance(len(piece))
        yield piece


def _size_of_lines(file: BinaryIO) -> int:
    """Return how many bytes to read for a piece that ends with a line, of which no byte is copied then."""
    if not file.seekable():
        return _PIECE
    window = os.pread(file.fileno(), _WINDOW, file.tell() + _PIECE - _WINDOW)
    return _PIECE - _WINDOW + (window.rfind(b"\n") + 1 or _WINDOW)


def _decompressed(pieces: Iterable[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
    decompressor, begun = make(), False
    for piece in pieces:
        rest = piece
        while rest:
            if decompressor.eof:  # another stream follows, as in files that were put together
                decompressor, begun = make(), False
            rest = rest if begun else rest.lstrip(b"\0")
            begun = begun or bool(rest)
            yield _decompress(decompressor, rest)
            rest = decompressor.unused_data if decompressor.eof else b""
    if begun and not decompressor.eof:
        raise CutFile("the compressed file ends early")


def _decompress(decompressor: Any, data: bytes) -> bytes:
    zstd = loaded(ZSTD)
    damages = (zlib.error, OSError, lzma.LZMAError, *([zstd.ZstdError] if zstd else []))
    try:
        decompressed: bytes = decompressor.decompress(data)
    except damages as damage:
        raise CutFile(f"the compressed file is damaged: {damage}") from None
    return decompressed


ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

COMPRESSIONS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=_GZIP),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: required(ZSTD, "reading .zst files").ZstdDecompressor(),
}

_MAGICS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_LONGEST_MAGIC = 6
_TELLING = 256

_CHUNK = _PIECE - _WINDOW
_BLOCK = 1 << 17
_LONGEST_LINE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEPT_OF_LONG_LINE = 1000


def log_name(path: Path) -> str:
    """Return where a log is, with a sum of its beginning, which tells it from others that were there."""
    name = os.fspath(path.resolve())
    if not path.is_file():
        return name
    with path.open("rb") as file:
        return f"{name} {zlib.crc32(file.read(_TELLING)):08x}"


class Chunk:
    """Whole lines of a file, each with a line feed alone at its end, and the number of the first, from 1."""

    def __init__(self, data: bytes, first: int) -> None:
        self.data = data
        self.first = first

    @cached_property
    def count(self) -> int:
        """How many lines it has; what finds their ends anyway may set it."""
        return sum(int(np.count_nonzero(block == ord("\n"))) for _, block in blocks(self.data))

    def lines(self) -> list[str]:
        """Return its lines without their ends."""
        lines = decoded(self.data).split("\n")
        lines.pop()
        return lines


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
        self.path, self.advance, self._bad = path, advance, bad
        self._next_line = 1
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._in_long_line = False

    def __iter__(self) -> Iterator[Chunk]:
        try:
            for piece in bytes_of(self.path, self.advance):
                yield from self._add(piece)
        except CutFile as cut:
            yield from self._whole_lines()
            self._bad(self._next_line, decoded(self._rest()[:_KEPT_OF_LONG_LINE]), str(cut))
            return
        yield from self._whole_lines()
        if rest := self._rest():
            yield from self._chunks(rest)

    def _add(self, piece: bytes) -> Iterator[Chunk]:
        if self._in_long_line:
            _, newline, piece = piece.partition(b"\n")
            self._in_long_line = not newline
            self._next_line += bool(newline)
        if self._next_line == 1 and not self._pending_size:
            # A log that was truncated while it was written begins with a hole, which reads as zeros.
            piece = piece.lstrip(b"\0")
        self._pending.append(piece)
        self._pending_size += len(piece)
        if self._pending_size >= _CHUNK:
            yield from self._whole_lines()
            self._skip_long_line()

    def _whole_lines(self) -> Iterator[Chunk]:
        """Yield the lines that have come to their end; what follows stays."""
        for k in range(len(self._pending) - 1, -1, -1):
            if end := self._pending[k].rfind(b"\n") + 1:
                rest = [self._pending[k][end:], *self._pending[k + 1 :]]
                whole = [*self._pending[:k], self._pending[k][:end]]
                self._pending, self._pending_size = rest, sum(map(len, rest))
                yield from self._chunks(b"".join(whole))
                return

    def _skip_long_line(self) -> None:
        if self._pending_size > _LONGEST_LINE:
            text = decoded(self._rest()[:_KEPT_OF_LONG_LINE])
            self._bad(self._next_line, text, f"the line is longer than {_LONGEST_LINE:,} bytes")
            self._in_long_line = True

    def _rest(self) -> bytes:
        rest = b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        return rest

    def _chunks(self, data: bytes) -> Iterator[Chunk]:
        if self._next_line == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
            if _is_utf_16(data):
                raise ValueError(
                    f"{self.path} is in UTF-16, and logs are read as UTF-8: convert it, as by "
                    "iconv -f UTF-16 -t UTF-8"
                )
        if not data.endswith(b"\n"):
            data += b"\n"
        chunk = Chunk(_with_line_feeds(data), self._next_line)
        yield chunk
        self._next_line += chunk.count


def blocks(data: bytes | memoryview) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    """Yield places and parts of bytes that are so small that what is made of them stays in the cache."""
    buffer = np.frombuffer(data, np.uint8)
    return ((start, buffer[start : start + _BLOCK]) for start in range(0, len(buffer), _BLOCK))


def _is_utf_16(data: bytes) -> bool:
    """Tell whether bytes begin as UTF-16 does: with its mark, or with every other byte zero."""
    zeros = [each == 0 for each in data[:4]]
    return data.startswith((b"\xff\xfe", b"\xfe\xff")) or zeros in ([False, True] * 2, [True, False] * 2)


def _with_line_feeds(data: bytes) -> bytes:
    """Return lines with a line feed alone at their ends."""
    if b"\r" not in data:
        return data
    # Which is several times as fast as replacing them, if all are before a line feed.
    following = np.frombuffer(data, np.uint8)[1:]
    for start, block in blocks(memoryview(data)[:-1]):
        if ((block == ord("\r")) & (following[start : start + len(block)] != ord("\n"))).any():
            return data.replace(b"\r\n", b"\n")
    return data.translate(None, b"\r")

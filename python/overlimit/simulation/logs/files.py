"""The files of a log: which they are, and what is in them once decompressed."""

from __future__ import annotations

import bz2
import glob
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from overlimit.simulation.optional import loaded, required

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_PIECE = 1 << 20
# A compressed piece becomes up to a thousand times as much.
_COMPRESSED_PIECE = 1 << 14
_GZIP = 31


class CutFile(Exception):
    """A compressed file ends early, or goes on with what is not its format."""


def files_of(path: Paths) -> list[Path]:
    """Return the files that are meant: a path, several, or a pattern such as ``access.log*``.

    Raises FileNotFoundError if there is none.
    """
    if isinstance(path, (str, os.PathLike)):
        return _files_of_one(os.path.expanduser(path))
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
    """Yield what is in a file, decompressed if its name ends in ``.gz``, ``.bz2``, ``.xz`` or ``.zst``.

    ``advance`` is called with how many bytes of the file have been read since the last time. Raises CutFile
    if it ends early, once all that could be decompressed was yielded, and OSError if it cannot be read.
    """
    make = _DECOMPRESSORS.get(path.suffix.lower())
    with path.open("rb") as file:
        pieces = _pieces(file, _COMPRESSED_PIECE if make else _PIECE, advance)
        yield from _decompressed(pieces, make) if make else pieces


def _pieces(file: BinaryIO, size: int, advance: Callable[[int], object]) -> Iterator[bytes]:
    while piece := file.read(size):
        advance(len(piece))
        yield piece


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
    zstandard = loaded("zstandard")
    damages = (zlib.error, OSError, lzma.LZMAError, *([zstandard.ZstdError] if zstandard else []))
    try:
        decompressed: bytes = decompressor.decompress(data)
    except damages as damage:
        raise CutFile(f"the compressed file is damaged: {damage}") from None
    return decompressed


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=_GZIP),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: required("zstandard", "reading .zst files").ZstdDecompressor().decompressobj(),
}

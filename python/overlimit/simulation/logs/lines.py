"""The lines of a chunk of a log as numpy and pyarrow take them: where each begins and ends."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from overlimit.simulation.logs.arrow_texts import Positions
from overlimit.simulation.logs.chunks import Chunk, blocks, decoded

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_CONTROL_END, _ASCII_END = 32, 128


class Lines:
    """The lines of a chunk: the k-th is ``data[starts[k]:ends[k]]``, and a line feed follows it."""

    def __init__(self, chunk: Chunk, ends: Positions | None = None) -> None:
        self.data = chunk.data
        self.first = chunk.first
        self.buffer: Bytes = np.frombuffer(chunk.data, np.uint8)
        self.ends = self.places(ord("\n")) if ends is None else ends
        self.starts: Positions = np.append(0, self.ends[:-1] + 1)
        chunk.count = len(self.ends)

    def places(self, letter: int) -> Positions:
        """Return where a letter is."""
        return np.concatenate([np.flatnonzero(block == letter) + start for start, block in blocks(self.data)])

    def letters_at(self, places: Positions) -> Bytes:
        """Return the letters at some places, the last one for places beyond it."""
        return self.buffer.take(places, mode="clip")

    def __len__(self) -> int:
        return len(self.ends)

    def text(self, k: int) -> str:
        """Return a line as text."""
        return decoded(self.data[self.starts[k] : self.ends[k]])

    def after(self, k: int) -> Chunk | None:
        """Return the lines from one on as a chunk; None if there are none."""
        return Chunk(self.data[self.starts[k] :], self.first + k) if k < len(self) else None

    def texts(self, lines: Iterable[int]) -> list[str]:
        """Return some lines as texts."""
        return [self.text(k) for k in lines]

    def holding(self, at: Positions) -> Mask:
        """Return which lines hold any of the bytes at some positions, which are in order."""
        found = np.zeros(len(self), bool)
        found[np.searchsorted(self.ends, at)] = True
        return found

    def with_control_characters(self, but: str = "") -> Mask:
        """Return which lines hold a control character other than ``but``, such as a tab."""
        allowed = (but or "\n").encode()[0]
        count = sum(np.count_nonzero(block < _CONTROL_END) for _, block in blocks(self.data))
        if count == len(self):
            return np.zeros(len(self), bool)
        at = np.flatnonzero(self.buffer < _CONTROL_END)
        return self.holding(at[(self.buffer[at] != ord("\n")) & (self.buffer[at] != allowed)])

    def not_ascii(self) -> Mask:
        """Return which lines hold a byte that is not ASCII."""
        return self.holding(np.flatnonzero(self.buffer >= _ASCII_END))

    def is_utf8(self) -> bool:
        """Tell whether all of them are UTF-8."""
        if self.data.isascii():
            return True
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return False
        return True

    def only(self, which: Positions) -> bytes:
        """Return some of the lines, as lines."""
        if len(which) == len(self):
            return self.data
        chosen = np.zeros(len(self), bool)
        chosen[which] = True
        kept: Bytes = self.buffer[np.repeat(chosen, np.diff(self.ends, prepend=-1))]
        return kept.tobytes()

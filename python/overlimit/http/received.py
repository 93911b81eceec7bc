"""What a response came to, once its body has ended: `total_tokens`."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from overlimit._options import whole_number
from overlimit._steps import Steps

__all__ = ["Ended", "Received", "Recording", "total_tokens"]

Ended: TypeAlias = Callable[[bytes], Steps[Any, None]]
"""Is told of all that was read of a body when that has ended or was closed."""


class HasContent(Protocol):
    """A response whose body has been read: a `Received`, or one of httpx or requests."""

    @property
    def content(self) -> Any:
        """The body: bytes."""


@dataclass(frozen=True)
class Received:
    """A response whose body has ended, or was closed before its end; what ``settle=`` is given."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    """What has been read of the body, decoded."""

    @property
    def text(self) -> str:
        """The same as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return what the body says; raises ValueError if it is no JSON."""
        return json.loads(self.content)


@dataclass(kw_only=True, eq=False)
class Recording:
    """What is read of a body, and who is told when it has ended."""

    ended: Ended
    parts: list[bytes] = field(default_factory=list)
    has_ended: bool = False

    def decoded(self, content: bytes) -> bytes:
        """Return what was read without the encodings of its header."""
        return content

    def end(self) -> Steps[Any, None]:
        """Tell the end of it, once."""
        if not self.has_ended:
            self.has_ended = True
            content = b"".join(self.parts)
            self.parts.clear()
            yield from self.ended(self.decoded(content))


_SUMS = (("total_tokens",), ("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))


def total_tokens(response: HasContent) -> int | None:
    """Return the tokens that a language model says to have counted, of a body in JSON or of a stream of it.

    That is ``usage.total_tokens``, as OpenAI and many others have it, or the sum of ``input_tokens`` and
    ``output_tokens``, as Anthropic has it. None where no whole numbers say it, so that the estimate stays: of
    OpenAI's streams without ``stream_options={"include_usage": True}``, of a stream that was closed before
    its end, and of a body that cannot be read. It raises nothing, whatever the body is.
    """
    usage: dict[str, Any] = {}
    has_final = False
    for said in _objects_in(response.content.removeprefix(codecs.BOM_UTF8)):
        for key, holder in (("", said), *((each, said.get(each)) for each in ("message", "response"))):
            if isinstance(holder, dict) and isinstance(holder.get("usage"), dict):
                usage.update(holder["usage"])
                has_final |= key != "message"
    sums = (_sum(usage, names) for names in _SUMS)
    return next((total for total in sums if total is not None), None) if has_final else None


def _sum(usage: dict[str, Any], names: tuple[str, ...]) -> int | None:
    counts = [whole_number(usage.get(name)) for name in names]
    known = [count for count in counts if count is not None and count >= 0]
    return sum(known) if len(known) == len(names) else None


def _objects_in(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the object that a body is, or those in the data of its server-sent events."""
    lines = [line[5:] for line in content.splitlines() if line.startswith(b"data:")]
    for text in (content,) if content.lstrip()[:1] == b"{" else lines:
        with contextlib.suppress(ValueError, RecursionError):  # such as [DONE]
            said = json.loads(text)
            if isinstance(said, dict):
                yield said

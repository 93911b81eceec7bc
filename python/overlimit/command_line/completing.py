"""How bash completes a word with a colon or an equals sign in it, such as the URL of a store."""

from __future__ import annotations

import os

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

_BREAKS = frozenset(":=")


class _Bash(BashComplete):
    """Joins the words that bash takes apart at colons and equals signs, and completes the last part."""

    _kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to complete, and that one."""
        number = int(os.environ["COMP_CWORD"])
        parts = split_arg_string(os.environ["COMP_WORDS"])[: number + 1]
        is_begun = len(parts) > number
        words = _joined(parts)
        incomplete = words.pop() if is_begun else ""
        self._kept = incomplete[: 1 + max(map(incomplete.rfind, _BREAKS))]
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return a completion without what stands before the part that bash replaces."""
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def _joined(parts: list[str]) -> list[str]:
    words, ends_open = list[str](), False
    for part in parts:
        is_break = _BREAKS.issuperset(part)
        if words and (is_break or ends_open):
            words[-1] += part
        else:
            words.append(part)
        ends_open = is_break
    return words


add_completion_class(_Bash)

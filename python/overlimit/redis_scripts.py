"""Print the Lua script that Redis runs for some limits: ``python -m overlimit.redis_scripts "10/second"``.

The output is the very text that a store sends, with a comment before it that shows its keys and arguments.
The text is the same for all limits. No server is asked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import calcsize, unpack_from

from overlimit import _core
from overlimit.errors import InvalidLimit
from overlimit.limits import ALGORITHMS, Limit, as_limits
from overlimit.limits.penalty import Penalty

__all__ = ["main", "script_for"]

_POLICY = "example"
_ARGUMENTS = {
    "decide": ("slack_ms", "patience"),
    "read": (),
    "refund": ("answer",),
    "lock": ("slack_ms", "duration"),
    "lease": ("slack_ms", "patience"),
    "restore": ("slack_ms", "number of limits"),
}
_CHARGE = ("policy at", "number of limits", "cost", "role")
_BYTES = {"answer", "number of limits", "role"}
_LIMIT, _PENALTY = "<B8s6q", "<BB"
_EPILOG = """\
which script:
  decide   what hit runs (default)
  read     what peek runs, and a hit that can only be refused: it changes nothing
  refund   what refund runs
  lock     what lock and unlock run
  lease    what charges units early, for a process to spend by itself
  restore  what brings counts back that a server has lost, and what resets

examples:
  python -m overlimit.redis_scripts "10/second; 120/minute"
  python -m overlimit.redis_scripts "100/hour" --algorithm token_bucket --penalty 60,300
  python -m overlimit.redis_scripts "10/second" --identifiers 2 --which refund
"""


def _format(names: Sequence[str]) -> str:
    return "<" + "".join("B" if name in _BYTES else "q" for name in names)


@dataclass(frozen=True)
class Script:
    """A script with what it is called with."""

    sha1: str
    """What Redis knows the script by."""
    text: str
    keys: list[bytes]
    arguments: list[bytes]
    limits: list[tuple[Limit, int]]
    """The limits in the order of the arguments, each with how many numbers it has there."""
    which: str

    def commented(self) -> str:
        """Return the text behind a comment that shows the SHA1, the keys and the arguments."""
        return "".join(f"-- {line}\n".replace("-- \n", "--\n") for line in self._header()) + self.text

    def _header(self) -> Iterator[str]:
        yield f"SHA1      {self.sha1}"
        for number, key in enumerate(self.keys, 1):
            yield f"KEYS[{number}]   {key.decode()}"
        further = self._told if self.which == "restore" else self._receipts
        for number, argument in enumerate(self.arguments, 1):
            size = len(argument)
            yield f"ARGV[{number}]   {size} bytes, little-endian:"
            yield from (f"          {part}" for part in (self._call, further)[number - 1]())
        yield ""

    def _call(self) -> Iterator[str]:
        leased = ("extra", "term") if self.which == "lease" else ()
        one = bool(leased) or (self.which == "decide" and len(self.keys) == 1)
        own = ("cost", *leased, "number of limits") if one else ()
        names = ("now", *_ARGUMENTS[self.which], *own)
        yield self._named(names, 0)
        at = calcsize(_format(names))
        if self.which in {"read", "lock"}:
            return
        for key in () if one or self.which == "restore" else self.keys:
            yield f"for {key.decode()}: {self._named(_CHARGE, at)}"
            at += calcsize(_format(_CHARGE))
        yield from self._policy(at)

    def _named(self, names: Sequence[str], at: int) -> str:
        numbers = unpack_from(_format(names), self.arguments[0], at)
        return ", ".join(f"{name} {number}" for name, number in zip(names, numbers, strict=True))

    def _policy(self, at: int) -> Iterator[str]:
        for limit, count in self.limits:
            algorithm, tag, *numbers = unpack_from(_LIMIT, self.arguments[0], at)
            shown = ", ".join(map(str, numbers[:count]))
            yield f"{limit.algorithm} of {limit}: algorithm {algorithm}, tag {tag.hex()}, then {shown}"
            at += calcsize(_LIMIT)
        levels, extends = unpack_from(_PENALTY, self.arguments[0], at)
        times = unpack_from(f"<{2 * levels}q", self.arguments[0], at + calcsize(_PENALTY))
        yield f"penalty: levels {levels}, extend {extends}, then {', '.join(map(str, times)) or 'nothing'}"

    def _told(self) -> Iterator[str]:
        yield "zeros here: when the key's value was told; then that value"

    def _receipts(self) -> Iterator[str]:
        yield "zeros here: per key when it was created, and per limit its state right after the charge"


def script_for(
    limits: Sequence[Limit], which: str = "decide", *, penalty: Penalty | None = None, identifiers: int = 1
) -> Script:
    """Return the script, with the keys and arguments of a call of this many identifiers, 1 to 64.

    ``which`` is ``"decide"``, ``"read"``, ``"refund"``, ``"lock"``, or ``"lease"`` or ``"restore"``, which
    take one identifier. Raises InvalidLimit for more than 16 limits or none, ValueError for another script
    or another number of identifiers.
    """
    if which in {"lease", "restore"} and identifiers != 1:
        raise ValueError(f"{which!r} takes one identifier, not {identifiers}")
    names = [f"user:{number + 1}" for number in range(identifiers)]
    sha1, text, keys, arguments, order = _core.redis_script(which, _POLICY, tuple(limits), penalty, names)
    return Script(sha1, text, keys, arguments, [(limits[place], count) for place, count in order], which)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the command line asks for; exit with 2 and a message for arguments that are wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        script = script_for(
            as_limits(given.limits, given.algorithm),
            given.which,
            penalty=given.penalty and Penalty(given.penalty, extend=given.extend),
            identifiers=given.identifiers,
        )
    except (InvalidLimit, ValueError) as error:
        parser.error(str(error))
    sys.stdout.write(script.text if given.script_only else script.commented())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m overlimit.redis_scripts",
        description="Print the Lua script that Redis runs for these limits, with its keys and arguments.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("limits", metavar="LIMITS", help='such as "10/second; 120/minute"')
    parser.add_argument("--algorithm", metavar="NAME", help=f"what LIMITS mean: {', '.join(ALGORITHMS)}")
    parser.add_argument(
        "--penalty",
        metavar="SECONDS",
        type=_durations,
        help="seconds for which an identifier that exceeds a limit is locked, such as 60,300",
    )
    parser.add_argument("--extend", action="store_true", help="hits while locked make the lock last longer")
    parser.add_argument(
        "--identifiers", metavar="N", type=int, default=1, help="how many a call has, from 1 to 64"
    )
    parser.add_argument(
        "--which", choices=["decide", "read", "refund", "lock", "lease", "restore"], default="decide"
    )
    parser.add_argument("--script-only", action="store_true", help="print the script without the comment")
    return parser


def _durations(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected seconds such as 60 or 60,300, not {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())

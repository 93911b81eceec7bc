"""The limits of an app as tables of text, for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from overlimit.http.installation import Installation
from overlimit.http.reports import Description, store_shown

__all__ = ["listing", "resets", "standings"]

_LIST_HEAD = (
    *("ENDPOINT", "METHODS", "RULE"),
    *("NAME", "LIMIT", "QUOTA", "WINDOW", "ALGORITHM", "KIND", "OPTIONS"),
)
_CHECK_HEAD = ("POLICY", "NAME", "LIMIT", "REMAINING", "RETRY AFTER", "RESET AFTER", "STATUS", "OPTIONS")
_UNKNOWN = "known only during a request"


def listing(installations: Collection[Installation], entries: list[Description]) -> Iterator[str]:
    """Yield the stores, a table of all limits and the routes that nothing protects."""
    usual = {each.identifiers_shown() for each in installations}
    yield from map(_store_line, installations)
    rows = [row for entry in entries for row in _rows(entry, usual)]
    if rows:
        yield ""
        yield from _aligned([_LIST_HEAD, *rows])
    bare = [_where(entry) for entry in entries if not entry["protected"]]
    yield ""
    yield "Unprotected (no limit can refuse a request):" if bare else "Every route is protected."
    yield from (f"  {line}" for line in _aligned(bare))


def _store_line(installation: Installation) -> str:
    prefix = f", key prefix {installation.prefix}" if installation.prefix else ""
    shadow = ", in shadow: refuses nothing" if installation.shadow else ""
    disabled = "" if installation.enabled else ", disabled"
    who = f", identifiers {installation.identifiers_shown()}"
    return f"Store: {store_shown(installation.store)}{prefix}{who}{shadow}{disabled}"


def _rows(entry: Description, usual: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row per limit, which tells who is counted if that may be another than the reader thinks."""
    where = _where(entry)
    for limit in entry["limits"]:
        who = limit["identifiers"]
        told = () if [who] == [*usual] else (f"identifiers {who}",)
        options = "; ".join((*told, *_options(limit)))
        yield *where, limit["name"], *_numbers(limit), limit["kind"], options
        where = "", "", ""


def _numbers(limit: Description) -> tuple[str, str, str, str]:
    if limit["limit"] is None:
        return "(dynamic)", "-", "-", "-"
    return limit["limit"], str(limit["quota"]), _seconds(limit["window"]), limit["algorithm"]


def _options(limit: Description) -> Iterator[str]:
    if limit["dynamic"]:
        yield f"limit is {limit['dynamic']}"
    if limit["scope"] is not None:
        yield f"scope {limit['scope']}"
    if limit["cost"] != 1:
        yield f"cost {limit['cost']}"
    if limit["methods"] is not None:
        yield f"methods {','.join(limit['methods'])}"
    if limit["per_method"]:
        yield "per method"
    if limit["shadow"]:
        yield "shadow"
    if limit["exempt_when"]:
        yield f"exempt when {limit['exempt_when']}"
    if limit["anonymous"] == "exempt":
        yield "exempt when anonymous"
    if limit["deduct_when"]:
        yield f"deduct when {limit['deduct_when']}"


def _where(entry: Description) -> tuple[str, str, str]:
    return entry["endpoint"], ",".join(entry["methods"]), entry["rule"]


def standings(identifier: str, found: list[Description]) -> Iterator[str]:
    """Yield a table of how an identifier stands under each limit."""
    yield f"Limits of {identifier}:"
    rows = [_standing_row(each) for each in found]
    yield from _aligned([_CHECK_HEAD, *rows])


def _standing_row(found: Description) -> tuple[str, ...]:
    options = "; ".join(_options(found))
    if found["limit"] is None:
        return found["policy"] or "-", found["name"], "-", "-", "-", "-", _UNKNOWN, options
    retry = "never" if found["retry_after"] is None else _seconds(found["retry_after"])
    left = f"{found['remaining']} of {found['quota']}"
    reset = _seconds(found["reset_after"])
    return found["policy"], found["name"], found["limit"], left, retry, reset, found["status"], options


def resets(identifier: str, done: list[str], left: list[str]) -> Iterator[str]:
    """Yield the names of the policies that were reset, and of those that could not be."""
    policies = "1 policy" if len(done) == 1 else f"{len(done)} policies"
    yield f"{identifier} has a fresh start under {policies}:"
    yield from (f"  {name}" for name in done)
    if left:
        yield f"Not reset, as where they count is {_UNKNOWN}:"
        yield from (f"  {name}" for name in left)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line per row, each column as wide as what is longest in it; all rows have as many cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _seconds(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".") + " s"

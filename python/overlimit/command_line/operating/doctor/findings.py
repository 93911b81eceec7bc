"""What the doctor finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["ok", "unknown", "warning", "broken"]
Status: TypeAlias = Literal["healthy", "warnings", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how bad it is, a sentence, and what to do."""

    severity: Severity
    check: str
    message: str
    advice: str = ""

    def told(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    def at(self, place: str) -> Finding:
        """Return the same of one of several servers."""
        return Finding(self.severity, self.check, f"{place}: {self.message}", self.advice)


ok, unknown = partial(Finding, "ok"), partial(Finding, "unknown")
warning, broken = partial(Finding, "warning"), partial(Finding, "broken")


def status_of(findings: Iterable[Finding], *, unknown_is_fine: bool = False) -> Status:
    """Return what all findings come to: what is not known might be a warning."""
    severities = {each.severity for each in findings}
    if "broken" in severities:
        return "broken"
    is_warned_of = "warning" in severities or ("unknown" in severities and not unknown_is_fine)
    return "warnings" if is_warned_of else "healthy"

"""What happens when limits refuse a request: who is told, and what answers it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from flask import Response

from overlimit import Decision
from overlimit.flask.batch import Verdict
from overlimit.flask.current import this_app
from overlimit.flask.exceeded import RateLimitExceeded, StoreFailed
from overlimit.flask.retry_after import note_refusal
from overlimit.flask.signals import rate_limited
from overlimit.http.rules import Role, Rule

__all__ = ["note_if_in_shadow", "refuse"]

_log = logging.getLogger("overlimit")


def refuse(verdict: Verdict) -> NoReturn:
    """Answer a refused request.

    Raises
    ------
    RateLimitExceeded
        A limit refused.
    StoreFailed
        The store failed, and ``on_error`` is ``"deny"``.
    """
    decision = verdict.decision
    note_refusal(decision, verdict.retry_after_name)
    if decision.source == "error":
        raise StoreFailed(decision)
    rate_limited.send(this_app(), decision=decision)
    rules = _speaking(verdict)
    response = _response_of_hooks(decision, rules)
    violated = verdict.plan.violated(decision, rules)
    raise RateLimitExceeded(decision, _error_message(decision, rules), response, violated)


def note_if_in_shadow(verdict: Verdict) -> None:
    """Log a refusal that changes nothing, and send the signal."""
    plan, decision = verdict.plan, verdict.decision
    if not plan.refuses_in_shadow(decision) and not (plan.refuses(decision) and decision.source != "error"):
        return
    decision = plan.shown(decision)
    _log.info("would have been refused, were it not in shadow: %r", decision)
    rate_limited.send(this_app(), decision=decision)


def _speaking(verdict: Verdict) -> list[Rule]:
    """Return the rules that refuse: meta limits if one is used up, else the enforced ones."""
    role = Role.ON_REFUSAL if verdict.decision._refused_by_meta else Role.ENFORCE
    return [rule for rule in verdict.plan.refusing(verdict.decision) if rule.role is role]


def _response_of_hooks(decision: Decision, rules: Sequence[Rule]) -> Response | None:
    # Those of a RateLimit come first in each rule, and are told once; the last answer counts.
    hooks = dict.fromkeys(hook for rule in rules for hook in rule.terms.on_breach[:1])
    hooks |= dict.fromkeys(hook for rule in rules for hook in rule.terms.on_breach)
    answer = None
    for hook in hooks:
        response = hook(decision)
        answer = response if isinstance(response, Response) else answer
    return answer


def _error_message(decision: Decision, rules: Sequence[Rule]) -> str | None:
    binding = [
        row.policy
        for row in decision.details
        if not row.allowed and row.limit == decision.limit and row.identifier == decision.identifier
    ]
    message = next((rule.terms.error_message for rule in rules if rule.limiter.name in binding), None)
    message = message() if callable(message) else message
    return None if message is None else str(message)

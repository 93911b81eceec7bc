"""What questions take as limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from overlimit.limiter import Limiter
from overlimit.limits import Limit, LimitsLike
from overlimit.limits.penalty import Penalty
from overlimit.route_charges import LimitsRoutes

PolicyLike: TypeAlias = "LimitsLike | Limiter | Sequence[object]"
"""What questions take: what ``Limiter`` takes as limits, a Limiter, or ``(limits, penalty)``.

A list of limits of several kinds is one of objects to type checkers; what is wrong in it, Limiter says.
"""


def policy_of(policy: PolicyLike | LimitsRoutes, penalty: Penalty | None = None) -> Limiter | LimitsRoutes:
    """Return a limiter as `limiter_of` does, and limits of routes as they are; TypeError for both."""
    if not isinstance(policy, LimitsRoutes):
        return limiter_of(policy, penalty)
    if penalty is not None:
        raise TypeError("limits of routes have penalties of their own: write '/login': (limits, Penalty(60))")
    return policy


def limits_and_penalty(policy: Limiter | LimitsRoutes) -> tuple[tuple[Limit, ...], Penalty | None]:
    """Return what a figure says of a policy; nothing of an app, whose limits are many."""
    return getattr(policy, "limits", ()), getattr(policy, "penalty", None)


def limiter_of(policy: PolicyLike, penalty: Penalty | None = None) -> Limiter:
    """Return a limiter of these limits, by a penalty in place of their own, or raise as ``Limiter`` does."""
    if isinstance(policy, LimitsRoutes):
        raise TypeError("limits of routes are for replay, compare, sweep and suggest: give the limits of one")
    limits, own = _parts(policy)
    return Limiter(limits, penalty=penalty if penalty is not None else own)


def _parts(policy: PolicyLike) -> tuple[LimitsLike, Penalty | None]:
    if isinstance(policy, Limiter):
        return list(policy.limits), policy.penalty
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[1], Penalty | None):
        return policy  # type: ignore[return-value]
    return cast("LimitsLike", policy), None

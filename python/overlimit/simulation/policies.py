"""What a question is asked about: limits, and what goes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from overlimit import Limiter
from overlimit.limits import LimitsLike
from overlimit.limits.penalty import Penalty

PolicyLike: TypeAlias = "LimitsLike | Limiter | Sequence[object]"
"""What questions take: what ``Limiter`` takes as limits, a Limiter, or ``(limits, penalty)``.

A list of limits of several kinds is one of objects to type checkers; what is wrong in it, Limiter says.
"""


def limiter_of(policy: PolicyLike, penalty: Penalty | None = None) -> Limiter:
    """Return a limiter of these limits, which is asked nothing; a penalty is in place of the policy's own.

    Raises InvalidLimit and TypeError, as ``Limiter`` does.
    """
    limits, own = _parts(policy)
    return Limiter(limits, penalty=penalty if penalty is not None else own)


def _parts(policy: PolicyLike) -> tuple[LimitsLike, Penalty | None]:
    if isinstance(policy, Limiter):
        return list(policy.limits), policy.penalty
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[1], Penalty | None):
        return policy  # type: ignore[return-value]
    return cast("LimitsLike", policy), None

"""What the log says of limits in shadow, which refuse nobody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlimit.http.deciding.answer import StoreAnswer

_log = logging.getLogger("overlimit")

_MOST_WARNED_OF = 1024  # a request may choose the name of a limit


def log_shadow_refusal(answer: StoreAnswer, place: str) -> None:
    """Log whom the limit that binds would have refused, and where.

    The first line of each limit in a process is a warning, so that it is seen where nobody has configured
    logging; the others are information.
    """
    decision = answer.decision_with_shadows
    name = next((rule.field_name for rule in answer.binding), "")
    label = decision.limit.label if decision.limit else ""
    warned_of = answer.call.rate_limits[0].shadows_warned_of
    is_first = (name, label) not in warned_of and len(warned_of) < _MOST_WARNED_OF
    if is_first:
        warned_of.add((name, label))
    _log.log(
        logging.WARNING if is_first else logging.INFO,
        "the limit %s (%s), in shadow, would have refused %r at %r%s",
        label,
        name,
        decision.identifier,
        place,
        " (a warning only once per process and limit)" if is_first else "",
    )

"""Waiting for limits: ``Limiter.acquire``, ``acquire_all`` and ``Limiter.throttle``."""

from overlimit.waiting.acquiring import acquire as acquire
from overlimit.waiting.acquiring import acquire_all as acquire_all
from overlimit.waiting.acquiring import follow as follow
from overlimit.waiting.acquiring import urgency_of as urgency_of
from overlimit.waiting.acquiring import wake_after_refund as wake_after_refund
from overlimit.waiting.acquiring import wake_waiters as wake_waiters
from overlimit.waiting.queues import wait_queues as wait_queues
from overlimit.waiting.sleeping import own_time as own_time

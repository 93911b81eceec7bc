"""The algorithms, one line each; ``registry`` knows them by name, and ``overlimit`` exports them."""

from overlimit.limits.fixed_window import FixedWindow as FixedWindow
from overlimit.limits.leaky_bucket import LeakyBucket as LeakyBucket
from overlimit.limits.sliding_log import SlidingLog as SlidingLog
from overlimit.limits.sliding_window import SlidingWindow as SlidingWindow
from overlimit.limits.sliding_window_counter import SlidingWindowCounter as SlidingWindowCounter
from overlimit.limits.token_bucket import TokenBucket as TokenBucket

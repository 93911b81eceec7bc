"""The limits: immutable values, and the strings and tuples that describe them."""

from overlimit.limits.algorithms import *
from overlimit.limits.grammar import LimitLike as LimitLike
from overlimit.limits.grammar import LimitsLike as LimitsLike
from overlimit.limits.grammar import as_limits as as_limits
from overlimit.limits.grammar import parse as parse
from overlimit.limits.limit import Limit as Limit
from overlimit.limits.registry import ALGORITHMS as ALGORITHMS

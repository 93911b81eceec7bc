"""Rate limits of web requests, whatever the framework; docs/adding_a_framework.md says how to add one.

A `Rule` (rules/rule.py) is one limit somewhere. A `RoutePlan` (deciding/plans.py) is all rules that may hold
for an endpoint and a method, compiled to store calls. A `RequestLedger` (deciding/ledger.py) is what was
decided in one request, and a `StoreAnswer` (deciding/answer.py) is what one store decided of it.
"""

from overlimit._addresses import group_address as group_address
from overlimit.http.fields import ServerLimit as ServerLimit
from overlimit.http.fields import ServerLimits as ServerLimits
from overlimit.http.fields import parse as parse
from overlimit.http.received import total_tokens as total_tokens

__all__ = ["ServerLimit", "ServerLimits", "group_address", "parse", "total_tokens"]

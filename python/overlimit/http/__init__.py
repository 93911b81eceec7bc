"""Rate limits of web requests, whatever the framework; docs/adding_a_framework.md says how to add one.

A `Rule` (rules.py) is one limit somewhere. A `RoutePlan` (route_plan.py) is all rules that may hold for an
endpoint and a method, compiled to store calls. A `RequestLedger` (ledger.py) is what was decided in one
request, and a `Refusal` (refusals.py) is how a refused request is answered.
"""

"""``flask limits``: the policies of limits, and what processes may lease of them."""

from __future__ import annotations

import limits_command
from limits_command import IMPORTS, SHOP, Done, limits_of

run = limits_command.run

LEASING = f"""{IMPORTS}
app = Flask("shop", static_folder=None)
limiter = RateLimit(app, store=os.environ["STORE"], application_limits="50/second")


@app.get("/plain")
def plain():
    return "ok"


@app.get("/log")
@limiter.limit("9/hour", algorithm="sliding_log", name="log")
def log():
    return "ok"


@app.get("/shadow")
@limiter.limit("9/hour", shadow=True, name="tried")
def shadow():
    return "ok"


@app.get("/dynamic")
@limiter.limit(lambda: "9/hour", name="dynamic")
def dynamic():
    return "ok"
"""


def lines_of(done: Done, endpoint: str) -> list[str]:
    lines = done.out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{endpoint} "))
    return lines[first : first + 1 + sum(line.startswith("  ") for line in lines[first + 1 : first + 2])]


def test_list_tells_the_policy_of_each_limit(run):
    first, *_ = lines_of(run(SHOP, "list"), "orders")
    assert first.split()[2:5] == ["/all-orders", "shop--route--orders--orders", "orders:3-per-3600s"]


def test_list_tells_what_is_leased_and_why_not(run):
    done = run(LEASING, "list", STORE="redis://127.0.0.1:1/0?lease=0.5&max_stale=2")
    assert done.out.startswith("Store: redis://127.0.0.1:1/0, identifiers ")
    assert ", lease 0.5 s, max_stale 2 s, changes by other processes are noticed within 2 s\n" in done.out
    assert "\nUnits leased by running processes count as used here: " in done.out
    reasons = {endpoint: lines_of(done, endpoint) for endpoint in ("plain", "log", "shadow", "dynamic")}
    assert reasons["plain"][0].endswith("leased for up to 0.02 s")
    assert reasons["log"][0].endswith(" keeps the instant of every call")
    assert reasons["log"][1].endswith("leased for up to 0.02 s")
    assert "shadow; not leased: its requests are counted in shadow, too" in reasons["shadow"][0]
    assert reasons["shadow"][1].endswith("not leased: its requests are counted in shadow, too")
    assert "leased" not in reasons["dynamic"][0]


def test_list_tells_bounds_in_json(run):
    done = run(LEASING, "list", "--json", STORE="redis://127.0.0.1:1/0?lease=0.5")
    (plain,) = limits_of(done, "plain", "/plain", "GET")
    assert plain["bounds"] == {"over": 0, "stale": 0.5, "lease": 0.02, "reason": None}
    assert plain["store_options"] == {"lease": 0.5}
    assert limits_of(done, "dynamic", "/dynamic", "GET")[0]["bounds"] is None


def test_list_says_nothing_of_leases_where_there_are_none(run):
    for store in ("memory://", "redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0?max_stale=1"):
        assert "lease" not in run(LEASING, "list", STORE=store).out


def test_check_says_that_leased_units_are_known_elsewhere(run, redis_server, prefix):
    for options, count in (("", 0), ("&lease=0.5", 1)):
        store = f"{redis_server.unix_url()}&prefix={prefix}{options}"
        done = run(LEASING, "check", "ip:192.0.2.1", STORE=store)
        assert done.status == 0, done.err
        assert done.err.count("Hint: units leased by running processes count as used here") == count


def test_meta_limits_keep_requests_from_being_leased(run):
    app = LEASING.replace("application_limits=", 'meta_limits="9/day", application_limits=')
    done = run(app, "list", STORE="redis://127.0.0.1:1/0?lease=0.5")
    assert lines_of(done, "plain")[0].endswith("leased: refusals of its requests are charged to meta limits")

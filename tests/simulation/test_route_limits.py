"""Limits of routes: as the apps that have them decide, request by request."""

from __future__ import annotations

import importlib
import random
import warnings
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest

from adapters import DRIVERS
from adapters.site import Limited
from overlimit import InvalidLimit, ManualClock, MemoryStore, Penalty
from overlimit.simulation import Events, RouteLimits, compare, replay, suggest

PATHS = ("/search", "/orders", "/api/a", "/api/b", "/free", "/nowhere")
VIEWS = dict.fromkeys(PATHS[:-1], lambda asked: "ok")
PEERS = ("192.0.2.1", "192.0.2.2", "192.0.2.3")


def some_events(rnd, count=250, **more):
    times = np.cumsum([rnd.choice((0, 0.1, 0.5, 1.0)) for _ in range(count)]) + 1000
    columns = {
        "ip": [rnd.choice(PEERS) for _ in range(count)],
        "user": [rnd.choice(("", "", "ann", "ben")) for _ in range(count)],
    }
    return Events(
        times,
        columns,
        endpoint=[rnd.choice(PATHS) + rnd.choice(("", "?q=1")) for _ in range(count)],
        method=[rnd.choice(("GET", "GET", "POST", "OPTIONS")) for _ in range(count)],
        **more,
    )


def texts(rnd):
    return rnd.choice(("3/minute", "5/minute; 2/second", "1/second", "4/10s burst 6", "9/minute"))


def of_decorators(rnd):
    routes = {path: texts(rnd) for path in PATHS[:2] if rnd.random() < 0.7}
    if rnd.random() < 0.5:
        shadow = Limited(texts(rnd), shadow=True)
        routes["/api/a"] = [Limited(texts(rnd), name="one", cost=2), shadow]
    if rnd.random() < 0.5:
        routes["/api/b"] = Limited(texts(rnd), shared="orders", penalty=Penalty([5, 20]))
    options = {"limits": texts(rnd), "together": rnd.choice((None, "20/minute")), "exempt": ["/free"]}
    if rnd.random() < 0.5:
        options |= {"meta_limits": "6/minute", "penalty": rnd.choice((None, Penalty(4)))}
    if rnd.random() < 0.3:
        options["global_limits"] = "25/minute"
    return options | {"routes": routes}


def of_patterns(rnd):
    routes = {"GET /search": texts(rnd), "/orders": texts(rnd), "/api/*": texts(rnd)}
    options = {"limits": rnd.choice((None, texts(rnd))), "exempt": ["/free"], "cost": rnd.choice((None, 2))}
    return options | {"routes": routes, "penalty": rnd.choice((None, Penalty([3, 9])))}


def asked_one_by_one(site, events, clock):
    """Return which requests an app lets pass that is asked by its client, the clock at the time of each."""
    passed = []
    for event, path, method in zip(events, events.endpoint, events.method, strict=True):
        clock.set(event.time)
        kinds = dict(each.split(":", 1) for each in event.identifiers)
        answer = site.ask(path, method=method, peer=kinds["ip"], user=kinds.get("user", ""))
        passed.append(answer.status != 429)
    return passed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("driver", ["flask", "fastapi", "django", "wsgi", "asgi", "quart"])
def test_a_replay_of_an_app_is_what_the_app_answers(driver, seed):
    rnd = random.Random(f"{driver} {seed}")
    events = some_events(rnd)
    options = (of_patterns if driver in ("wsgi", "asgi") else of_decorators)(rnd)
    clock = ManualClock(1000.0)
    with ExitStack() as served:
        given = {name: value for name, value in options.items() if value is not None}
        site = served.enter_context(DRIVERS[driver].serve(VIEWS, store=MemoryStore(), clock=clock, **given))
        limits = site.limiter
        if driver == "django":
            from overlimit.django import get_limits

            limits = get_limits()
        told = replay(events, limits)
        passed = asked_one_by_one(site, events, clock)
    assert told.allowed.tolist() == passed
    assert 0 < told.refused < len(events)
    assert told.by_limit()["refused"].sum() == told.refused


@pytest.mark.parametrize("seed", range(4))
def test_route_limits_are_those_of_a_middleware(seed):
    rnd = random.Random(seed)
    events = some_events(rnd)
    routes = {"GET /search": texts(rnd), "/orders": texts(rnd), "/api/*": texts(rnd), "/free": "99/second"}
    default = rnd.choice((None, texts(rnd)))
    clock = ManualClock(1000.0)
    given = {"limits": default} if default else {}
    with DRIVERS["wsgi"].serve(VIEWS, store=MemoryStore(), clock=clock, routes=routes, **given) as site:
        passed = asked_one_by_one(site, events, clock)
    told = replay(events, RouteLimits(routes, default=default))
    assert told.allowed.tolist() == passed
    alone = replay(events, RouteLimits(routes, default=default), columns=("allowed",))
    assert alone.allowed.tolist() == passed


def test_what_is_decided_alone_is_the_same_as_what_is_decided_together():
    rnd = random.Random(7)
    events = some_events(rnd, 600, cost=[rnd.randrange(3) for _ in range(600)])
    routes = {"/search": ("3/minute", Penalty([2, 6])), "/orders": "4/minute; 2/second", "/api/*": "5/minute"}
    alone = RouteLimits(routes, default="9/minute", cost={"/api/*": 2})
    # One limit of all that never refuses has everything decided event by event.
    together = RouteLimits(routes, default="9/minute", application="1000000/second", cost={"/api/*": 2})
    fast, slow = replay(events, alone), replay(events, together)
    assert fast.refused > 50
    refused = ~fast.allowed
    for name in ("allowed", "status"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()
    for name in ("remaining", "retry_after", "identifier"):
        assert getattr(fast, name)[refused].tolist() == getattr(slow, name)[refused].tolist()
    assert fast.by_limit().drop(columns="longest_retry_after").to_dict() == {
        name: {title: count for title, count in counts.items() if "application" not in title}
        for name, counts in slow.by_limit().drop(columns="longest_retry_after").to_dict().items()
    }


def test_which_limit_refused():
    events = Events([0.0] * 5, ["a", "a", "a", "b", "b"], endpoint=["/x", "/x", "/y", "/x", "/x"])
    told = replay(events, RouteLimits({"/x": "1/minute"}, application="2/minute"))
    assert told.allowed.tolist() == [True, False, True, True, False]
    table = told.by_limit()
    assert table.loc["/x: 1 per 1 minute"].tolist()[:2] == [2, 2]
    assert table.loc["application: 2 per 1 minute", "refused"] == 0
    frame = told.to_pandas()
    assert frame["limit"].iloc[1].endswith("/x: 1 per 1 minute")
    assert frame["binding_identifier"].tolist() == ["a", "a", "a", "b", "b"]
    plain = replay(events, "1/minute").by_limit()
    assert plain["refused"].tolist() == [3]
    assert pd.isna(replay(events, "9/minute").by_limit()["longest_retry_after"]).all()


def test_costs_of_events_and_of_routes():
    events = Events([0.0] * 4, ["a"] * 4, cost=[2, 2, 5, 1], endpoint=["/x", "/x", "/y", "/y"])
    limits = RouteLimits({"/x": "3/minute"}, default="9/minute", application="7/minute", cost=1)
    assert replay(events, limits).allowed.tolist() == [True, True, False, True]


def test_without_paths_there_is_nothing_to_ask():
    with pytest.raises(ValueError, match="do not say where they went"):
        replay(Events([0.0], ["a"]), RouteLimits({"/x": "1/minute"}))
    with pytest.raises(TypeError, match="penalties of their own"):
        replay(Events([0.0], ["a"], endpoint=["/x"]), RouteLimits({"/x": "1/minute"}), penalty=Penalty(5))


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (RouteLimits, InvalidLimit, "there are no limits"),
        (lambda: RouteLimits("5/minute"), TypeError, "routes must be a dict"),
        (lambda: RouteLimits({"x": "5/minute"}), ValueError, "a pattern is a path"),
        (lambda: RouteLimits({"/*": "5/minute", "/x": "1/minute"}), ValueError, "never reached"),
        (lambda: RouteLimits({"/x": "5/minute"}, cost={"/y": 1}), ValueError, "none of the patterns"),
        (lambda: RouteLimits({"/x": "5/minute"}, cost=-1), ValueError, "from 0, not -1"),
    ],
)
def test_wrong_limits_of_routes(make, error, told):
    with pytest.raises(error, match=told):
        make()


def test_questions_take_limits_of_routes():
    events = Events(np.arange(30.0), ["a", "b", "c"] * 10, endpoint=["/x", "/y"] * 15)
    both = compare(events, {"x": RouteLimits({"/x": "3/minute"}), "all": "3/minute"}).to_pandas()
    assert both.loc["x", "refused_events"] == 6 / 30
    assert both.loc["all", "refused_events"] == 21 / 30
    found = suggest(events, lambda n: RouteLimits({"/x": f"{n}/minute"}), (1, 50))
    assert found.value == 5


def test_what_a_log_does_not_tell_is_said():
    from flask import Flask

    from overlimit.flask import RateLimit

    app = Flask("app")
    limiter = RateLimit(app, default_limits="2/minute")
    app.add_url_rule("/a", "a", limiter.limit("1/minute", exempt_when=lambda: False)(lambda: "a"))
    events = Events([0.0, 1.0], {"ip": ["192.0.2.1"] * 2}, endpoint=["/a"] * 2)
    with pytest.warns(UserWarning, match="a log does not tell, .* the exempt_when of 'a'"):
        assert replay(events, limiter).allowed.tolist() == [True, False]


@pytest.mark.parametrize("driver", ["flask", "fastapi", "quart"])
def test_whom_limits_count_by_default_and_in_place_of_another(driver):
    """Of an event with a user, ``by_user_or_address`` leaves the address out, alone and beside others."""
    rnd = random.Random(driver)
    events = some_events(rnd)
    module = importlib.import_module(f"overlimit.{driver}")
    either = {"identifiers": module.by_user_or_address}
    routes = {
        "/search": Limited("3/minute", **either),
        "/orders": [Limited("3/minute", **either), "2/second"],
    }
    clock = ManualClock(1000.0)
    given = {"routes": routes | {"/api/a": "4/minute"}, "store": MemoryStore(), "clock": clock}
    with DRIVERS[driver].serve(VIEWS, **given) as site, warnings.catch_warnings():
        warnings.simplefilter("error")
        columns = events.identifiers | {"session": ["one"] * len(events)}  # which no limit counts
        seen = Events(events.times, columns, unit="us", endpoint=events.endpoint, method=events.method)
        told = replay(seen, site.limiter)
        passed = asked_one_by_one(site, events, clock)
    assert told.allowed.tolist() == passed
    assert 0 < told.refused < len(events)


def test_whom_a_log_does_not_tell_is_said():
    from flask import Flask

    from overlimit.flask import RateLimit, by_header, by_user

    app = Flask("app")
    limiter = RateLimit(app)
    for name, identify in (("a", by_header("X-Key")), ("b", by_user)):
        limited = limiter.limit("1/minute", identifiers=identify)(lambda: "ok")
        app.add_url_rule(f"/{name}", name, limited)
    events = Events([0.0, 1.0], {"ip": ["192.0.2.1", "192.0.2.2"]}, endpoint=["/a", "/b"])
    with pytest.warns(UserWarning, match="whom 'a' counts, for which all .* 'b' counts, .* no column 'user'"):
        replay(events, limiter)


def test_where_requests_went_is_kept(tmp_path):
    events = Events(
        [3.0, 1.0, 2.0],
        {"ip": ["a", "b", "a"]},
        endpoint=["https://shop.example:8080/x?y=1", None, "/caf%C3%A9"],
        method=["GET", None, "POST"],
    )
    assert events.endpoint.tolist() == ["/x", None, "/caf%C3%A9"]
    assert events[1:].endpoint.tolist() == [None, "/caf%C3%A9"]
    assert events.between(2).method.tolist() == ["GET", "POST"]
    events.save(tmp_path / "events.parquet")
    assert Events.load(tmp_path / "events.parquet") == events
    both = Events.concat([events, Events([9.0], {"ip": ["c"]})])
    assert both.endpoint.tolist() == [None, "/caf%C3%A9", "/x", None]
    assert both != Events.concat([events[:2], Events([9.0], {"ip": ["c"]})])
    assert events.with_labels(lambda name: name).endpoint.tolist() == events.endpoint.tolist()
    frame = events.to_pandas()
    assert Events(frame["time"], frame[["ip"]], endpoint=frame["endpoint"], method=frame["method"]) == events
    assert replay(events, RouteLimits({"/café": "1/minute"})).by_limit().index.tolist() == [
        "/café: 1 per 1 minute"
    ]

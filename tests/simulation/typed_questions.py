"""Questions as people write them, which type checkers take; checked by `make lint`."""

from overlimit import Limiter, Penalty, TokenBucket
from overlimit.simulation import (
    Clients,
    Events,
    backtest,
    closed_loop,
    compare,
    error_of,
    plot_level,
    plot_timeline,
    read_log,
    replay,
    suggest,
    sweep,
)

events = Events([1, 2], ["a", "b"])
mixed = ["10/second", TokenBucket(10, per=60)]
policies = {
    "text": "10/second",
    "list": ["10/second", TokenBucket(10, per=60)],
    "locks": ("1/minute", Penalty(3)),
    "limiter": Limiter("1/minute"),
}


def bucket(rate: int, burst: int) -> TokenBucket:
    return TokenBucket(rate, per=60, burst=burst)


def owner(identifier: str | bytes) -> str | None:
    return "office" if identifier == "a" else None


events = events.with_labels({"a": "office"}).with_labels(["x", "y"]).with_labels(owner, other="rest")
answers = replay(events, [(60, 10), "5/second"])
answers.by_time(every="day", timezone="Europe/Berlin")
plot_timeline(answers, "hour", timezone="Europe/Berlin")
plot_level(events, (mixed, Penalty(5)), events[0].identifiers[0])
compare(events, policies)
compare(events, {"one": "10/second", "two": TokenBucket(10, per=60), "three": [(60, 10), "5/second"]})
sweep(events, lambda n: [f"{n}/minute", TokenBucket(n)], [1, 2])
suggest(events, lambda n: ([f"{n}/minute", TokenBucket(n)], Penalty(1)), between=(1, 2))
suggest(events, "{}/minute".format, between=(1, 2))
suggest(events, "{}/minute".format, between=(1, 2), spare="office")
suggest(events, "{}/minute".format, between=(1, 2), among=["people"], stop="crawler")
suggest(events, "{}/minute".format, between=(1, 2), among=events.times > 0)
swept = sweep(events, bucket, {"rate": [1, 2], "burst": range(3, 5)})
swept.best(stop="rest", spare=["office", b"b"])
swept.plot(title="both")
answers.plot("day", timezone="Europe/Berlin", title="")
suggest(events, "{}/minute", between=(1, 2), resample=200).plot(title="how sure")
backtest(
    events, lambda n: f"{n}/minute", (1, 2), stop="crawler", by="week", timezone="Europe/Berlin"
).to_pandas()
compare(events.scale(3, by="clients"), policies).resample(100)
read_log(
    "access.log",
    identifiers={"ip": "ip", "who": lambda frame: frame["user"]},
    cost=lambda frame: frame["bytes"],
)
read_log("access.log", identifiers=lambda frame: frame["user"])
events.to_arrow()
delays = closed_loop(events, "5/minute", clients={"office": "give up"}).delays
closed_loop(events, [(60, 10), "5/second"], clients="hammer")
error_of(events, ["5/minute", "9/hour"], mixed)
closed_loop([Clients(1, 2), Clients(3, 4)], [(60, 10), "5/second"], 5)

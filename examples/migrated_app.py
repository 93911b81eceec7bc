"""An app as a team has it once it came over from Flask-Limiter: a web shop with an API.

    OVERLIMIT_STORE=redis://localhost:6379/0 gunicorn --workers 4 --threads 4 'migrated_app:create_app()'

It stands behind one proxy, which adds X-Forwarded-For. In the environment:

OVERLIMIT_STORE     where the counts live; the default, memory://, counts in each worker apart
OVERLIMIT_ON_ERROR  what becomes of requests while that store fails: allow, deny, local or raise
PROBE_TOKEN         what the monitoring sends as X-Probe, to pass uncounted
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from typing import ClassVar, NamedTuple

from flask import Blueprint, Flask, Response, abort, g, json, jsonify, request
from flask.typing import ResponseReturnValue
from flask.views import MethodView
from werkzeug.exceptions import HTTPException

from overlimit import Decision, Limiter, Penalty
from overlimit.flask import RateLimit, RateLimitExceeded, rate_limited

STORE = os.environ.get("OVERLIMIT_STORE", "memory://")
PROBE_TOKEN = os.environ.get("PROBE_TOKEN", "")
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
KILOBYTE = 1024

log = logging.getLogger("shop")


class Customer(NamedTuple):
    """Who owns an API key."""

    name: str
    plan: str


PLANS = {"free": "10/minute", "pro": "60/minute; 10000/day", "own": ""}  # "": without a limit
API_KEYS = {
    "k-ann": Customer("ann", "free"),
    "k-bob": Customer("bob", "pro"),
    "k-ops": Customer("ops", "own"),
}
PASSWORDS = {"ann": "correct horse", "bob": "battery staple"}


def shut_out(decision: Decision) -> None:
    log.warning("%s was refused too often and is shut out", decision.identifier)


limiter = RateLimit(
    application_limits="150/minute",
    default_limits="30/minute",
    default_limits_per_method=True,
    meta_limits="100/hour",
    on_meta_breach=shut_out,
    store=STORE,
    trusted_proxies=1,
    key_prefix="shop",
)

# Failed logins of one account, from wherever: more than three at once lock it for longer and longer.
lockouts = Limiter(
    "1/second burst 3",
    name="shop-lockouts",
    penalty=Penalty([2, 60, 3600], forget_after=86_400),
    store=STORE,
    on_error="local",
)


def is_same(given: str | None, secret: str | None) -> bool:
    """Compare in a time that tells nothing; what is missing is never the same."""
    return given is not None and secret is not None and hmac.compare_digest(given.encode(), secret.encode())


@limiter.request_filter
def is_probe() -> bool:
    return PROBE_TOKEN != "" and is_same(request.headers.get("X-Probe"), PROBE_TOKEN)


# The shop

shop = Blueprint("shop", __name__)


@shop.route("/", methods=["GET", "POST"])
def home() -> ResponseReturnValue:
    """Stand under the default limits, each method on its own."""
    return jsonify(
        page="home", client=limiter.current_decision.identifier if limiter.current_decision else None
    )


@shop.get("/health")
@limiter.exempt
def health() -> ResponseReturnValue:
    return jsonify(status="ok", worker=os.getpid())


def has_failed(response: Response) -> bool:
    return response.status_code == 401


@shop.post("/login")
@limiter.limit("20/hour", deduct_when=has_failed, error_message="Too many failed logins from this address.")
def login() -> ResponseReturnValue:
    user = request.form.get("user", "")
    # Charged before the password is looked at, so that no number of guesses at once finds a gap.
    attempt = lockouts.hit(f"account:{user}")
    if not attempt:
        raise RateLimitExceeded(attempt)
    if not is_same(request.form.get("password"), PASSWORDS.get(user)):
        abort(401, "Wrong user or password.")
    lockouts.reset(f"account:{user}")
    return jsonify(welcome=user)


@shop.get("/search")
@limiter.limit("30/minute")
@limiter.limit("5/minute", shadow=True, name="search-tighter")
def search() -> ResponseReturnValue:
    """Try a tighter limit out: what it would refuse is logged."""
    if "deep" in request.args:
        with limiter.limit("2/minute", name="search-deep"):
            return jsonify(found=["everything"])
    return jsonify(found=[])


@shop.get("/weather")
@limiter.limit("5/minute")
async def weather() -> ResponseReturnValue:
    await asyncio.sleep(0.01)
    return jsonify(sky="clear")


export_limit = limiter.shared_limit("6/hour", scope="exports")


@shop.get("/orders.csv")
@export_limit
def orders_as_csv() -> ResponseReturnValue:
    return Response("order\n", content_type="text/csv")


@shop.get("/orders.json")
@export_limit
def orders_as_json() -> ResponseReturnValue:
    return jsonify(orders=[])


def team_of_route(_endpoint: str) -> str:
    return str((request.view_args or {})["team"])


@shop.get("/teams/<team>/news")
@limiter.limit("4/minute", scope=team_of_route)
def news(team: str) -> ResponseReturnValue:
    return jsonify(team=team)


# The API: /api/v1 for customers, /api/admin for ourselves

api = Blueprint("api", __name__, url_prefix="/api")
v1 = Blueprint("v1", __name__, url_prefix="/v1")
admin = Blueprint("admin", __name__, url_prefix="/admin")


@api.before_request
def load_customer() -> None:
    customer = API_KEYS.get(request.headers.get("X-API-Key", ""))
    if customer is None:
        abort(401, "An API key is required.")
    g.customer = customer


def customer_name() -> str:
    return f"customer:{g.customer.name}"


def customer_plan() -> str:
    return PLANS[g.customer.plan]


# One quota for all routes of the API; the admin's have one of their own instead.
limiter.shared_limit(customer_plan, scope="plan", identifiers=customer_name)(api)
limiter.shared_limit("5/minute", scope="admin", identifiers=customer_name, override_defaults=True)(admin)


class Orders(MethodView):
    """Reading stands under the plan, ordering under a limit of its own too."""

    decorators: ClassVar = [
        limiter.limit("3/minute", methods=["POST"], identifiers=customer_name, override_defaults=False)
    ]

    def get(self) -> ResponseReturnValue:
        return jsonify(orders=[])

    def post(self) -> ResponseReturnValue:
        return jsonify(ordered=True), 201


v1.add_url_rule("/orders", view_func=Orders.as_view("orders"))


def kilobytes() -> int:
    return max(1, -(-(request.content_length or 0) // KILOBYTE))


@v1.put("/files/<name>")
@limiter.limit(
    "100/hour", cost=kilobytes, identifiers=customer_name, override_defaults=False, name="upload-kB"
)
def upload(name: str) -> ResponseReturnValue:
    return jsonify(name=name, bytes=len(request.get_data())), 201


@admin.route("/lockouts/<account>", methods=["PUT", "DELETE"])
def lockout(account: str) -> ResponseReturnValue:
    """Lock an account for an hour, or let it in again."""
    if request.method == "PUT":
        lockouts.lock(f"account:{account}", 3600)
    else:
        lockouts.reset(f"account:{account}")
    return "", 204


api.register_blueprint(v1)
api.register_blueprint(admin)


# Errors, and what the operators see


def as_problem(error: HTTPException) -> Response:
    """Answer in the form of RFC 9457; header fields such as Retry-After stay."""
    problem = {"title": error.name, "status": error.code, "detail": error.description}
    if isinstance(error, RateLimitExceeded):
        problem |= {"type": QUOTA_EXCEEDED, "reason": error.decision.status}
    response = Response(json.dumps(problem), error.code, content_type="application/problem+json")
    for name, value in error.get_headers():
        if name == "Retry-After":
            response.headers[name] = value
    return response


def note_refusal(_app: Flask, decision: Decision, **_: object) -> None:
    log.info("over a limit: %s %s", request.path, decision.limit)


def create_app() -> Flask:
    logging.basicConfig(level=logging.INFO)
    app = Flask(__name__)
    app.config["RATELIMIT_ON_ERROR"] = os.environ.get("OVERLIMIT_ON_ERROR", "allow")
    limiter.init_app(app)
    rate_limited.connect(note_refusal, app)
    app.register_blueprint(shop)
    app.register_blueprint(api)
    for status in (401, 429, 503):
        app.register_error_handler(status, as_problem)
    return app

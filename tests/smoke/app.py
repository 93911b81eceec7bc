"""An app whose one page is limited for everybody together, and that only both workers can serve."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask import Flask

from overlimit.flask import RateLimit, rate_limit

WORKERS = Path(os.environ["WORKERS"])

app = Flask(__name__)
RateLimit(app, store=os.environ["STORE"])


@app.get("/")
@rate_limit(os.environ["LIMITS"], identifiers=lambda: "everybody")
def page() -> str:
    """Answer once both workers have got a request, so that neither admits them all."""
    (WORKERS / f"worker-{os.getpid()}").touch()
    while len(list(WORKERS.glob("worker-*"))) < 2:
        time.sleep(0.01)
    return str(os.getpid())

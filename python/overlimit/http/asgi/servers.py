"""Whether other processes serve an app of ASGI, too, which its scopes do not say."""

from __future__ import annotations

import sys


def is_a_worker() -> bool:
    """Return whether the server has made this process to be one of several, as far as that can be seen.

    uvicorn and hypercorn start workers by ``multiprocessing``, and gunicorn forks them. A worker may
    be the only one, such as that of ``uvicorn --reload``; what runs without workers, as daphne does, is none.
    """
    processes = sys.modules.get("multiprocessing.process")  # which whoever is started so has loaded
    return "gunicorn" in sys.modules or (processes is not None and processes.parent_process() is not None)

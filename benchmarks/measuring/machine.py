"""What a run's figures depend on besides the sources: the machine, and the versions of what is measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = (
    "aiolimiter", "asgi-ratelimit", "Django", "django-ratelimit", "fastapi", "fastapi-limiter", "Flask",
    "Flask-Limiter", "limits", "pyrate-limiter", "redis", "slowapi", "starlette", "throttled-py",
)  # fmt: skip


def facts() -> dict[str, object]:
    """Return everything about this machine and this version that a reader of the figures may ask for."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(bytes_of("MemTotal") / 2**30, 1),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": printed_by("c++", "--version").partition("\n")[0],
        "redis_server": redis_version(),
        "overlimit": printed_by("git", "-C", str(ROOT), "describe", "--tags", "--always", "--dirty"),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "peers": {name: importlib.metadata.version(name) for name in PEERS},
    }


def sentence(known: dict[str, object]) -> str:
    """Return the facts as a sentence for the page that shows the figures."""
    peers = known["peers"]
    assert isinstance(peers, dict)
    return (
        f"Measured on {known['date']}, version `{known['overlimit']}`, with {known['cores']} cores and "
        f"{known['memory_gib']} GiB, at a load average of {known['load']} before: {known['processor']}, "
        f"{known['system']}, {known['python']}, {known['compiler']}, redis-server {known['redis_server']}; "
        f"{', '.join(f'{name} {version}' for name, version in peers.items())}."
    )


def processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", text_of("/proc/cpuinfo"), re.M)
    return found[1] if found else platform.processor()


def available_bytes() -> int:
    """Return how much memory is free, or could be at once."""
    return bytes_of("MemAvailable")


def bytes_of(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", text_of("/proc/meminfo"), re.M)
    return int(found[1]) * 1024 if found else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def redis_version() -> str:
    program = os.environ.get("REDIS_SERVER", "redis-server")
    found = re.search(r"v=(\S+)", printed_by(program, "--version"))
    return found[1] if found else ""


def printed_by(*command: str) -> str:
    """Return what a command prints, or nothing if it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""

"""The command ``overlimit``: which limits to set, by a log, and how the stores are in which they count."""

from __future__ import annotations

import sys

_PACKAGES = ("click", "rich")


def main() -> None:
    """Run the command; without click or rich, say in a line how to install them, and exit with 2."""
    try:
        from overlimit.command_line.program import run
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        print(
            f"overlimit: the command line needs {name}: pip install 'overlimit[cli]' brings it",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run())

"""``python -m overlimit`` is the command ``overlimit``."""

from overlimit.command_line import main

if __name__ == "__main__":
    main()

"""Commands for those who look after a store: what is in it, and whether its server is well."""

from overlimit.command_line.operating.benching import bench
from overlimit.command_line.operating.checking import check
from overlimit.command_line.operating.doctor.command import doctor
from overlimit.command_line.operating.explaining import explain
from overlimit.command_line.operating.identifiers import lock, reset, show, unlock
from overlimit.command_line.operating.listing import locked, top
from overlimit.command_line.operating.shared_memories import shm
from overlimit.command_line.operating.value_stores import stores
from overlimit.command_line.operating.watching import watch

COMMANDS = (check, doctor, top, show, reset, lock, unlock, locked, watch, explain, bench, shm, stores)
"""What ``overlimit`` can do besides asking a log."""

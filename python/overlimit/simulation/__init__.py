"""Which limit should I set, and whom would it have hit? Logs and the engine that enforces limits say.

Events are what happened: when, by whom, at what cost. They come from columns, from logs, or are made up::

    from overlimit.simulation import Events, read_log, traffic

    events = read_log("access.log*", identifiers=("ip", "user"))

It needs numpy; reading some formats and the tables need pandas and pyarrow. All of it comes with
``pip install 'overlimit[notebook]'``.
"""

from overlimit.simulation.optional import required as _required

_required("numpy", "overlimit.simulation")

from overlimit.simulation import traffic as traffic
from overlimit.simulation.bad_lines import BadLines as BadLines
from overlimit.simulation.events import Event as Event
from overlimit.simulation.events import Events as Events
from overlimit.simulation.logs.read_log import read_log as read_log
from overlimit.simulation.replaying import Replay as Replay
from overlimit.simulation.replaying import replay as replay

__all__ = ["BadLines", "Event", "Events", "Replay", "read_log", "replay", "traffic"]

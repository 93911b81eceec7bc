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
from overlimit.simulation.events.bad_lines import BadLines as BadLines
from overlimit.simulation.events.events import Event as Event
from overlimit.simulation.events.events import Events as Events
from overlimit.simulation.figures import plot_heatmap as plot_heatmap
from overlimit.simulation.figures import plot_level as plot_level
from overlimit.simulation.figures import plot_sweep as plot_sweep
from overlimit.simulation.figures import plot_timeline as plot_timeline
from overlimit.simulation.logs.read_log import read_log as read_log
from overlimit.simulation.panel.explore import Panel as Panel
from overlimit.simulation.panel.explore import explore as explore
from overlimit.simulation.questions.approximating import Error as Error
from overlimit.simulation.questions.approximating import error_of as error_of
from overlimit.simulation.questions.closed_loops import Clients as Clients
from overlimit.simulation.questions.closed_loops import closed_loop as closed_loop
from overlimit.simulation.questions.comparing import Comparison as Comparison
from overlimit.simulation.questions.comparing import compare as compare
from overlimit.simulation.questions.effects import Effect as Effect
from overlimit.simulation.questions.suggesting import Suggestion as Suggestion
from overlimit.simulation.questions.suggesting import suggest as suggest
from overlimit.simulation.questions.sweeping import Sweep as Sweep
from overlimit.simulation.questions.sweeping import sweep as sweep
from overlimit.simulation.replaying import Replay as Replay
from overlimit.simulation.replaying import replay as replay

__all__ = [
    "BadLines",
    "Clients",
    "Comparison",
    "Effect",
    "Error",
    "Event",
    "Events",
    "Panel",
    "Replay",
    "Suggestion",
    "Sweep",
    "closed_loop",
    "compare",
    "error_of",
    "explore",
    "plot_heatmap",
    "plot_level",
    "plot_sweep",
    "plot_timeline",
    "read_log",
    "replay",
    "suggest",
    "sweep",
    "traffic",
]

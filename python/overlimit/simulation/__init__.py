"""Which limit should I set, and whom would it have hit? Logs and the engine that enforces limits say.

Events are what happened: when, by whom, at what cost. They come from columns, from logs, or are made up::

    from overlimit.simulation import Events, read_log, traffic

    events = read_log("access.log*", identifiers=("ip", "user"))

It needs numpy; reading some formats and the tables need pandas and pyarrow. All of it comes with
``pip install 'overlimit[notebook]'``.
"""

from overlimit.simulation.optional import required as _required

_required("numpy", "overlimit.simulation")

from overlimit.simulation import traffic
from overlimit.simulation.events.bad_lines import BadLine, BadLines
from overlimit.simulation.events.events import Event, Events
from overlimit.simulation.figures.replays import plot_heatmap, plot_timeline
from overlimit.simulation.logs.read_log import read_log
from overlimit.simulation.panel import Panel, explore
from overlimit.simulation.questions.approximating import Error, error_of
from overlimit.simulation.questions.backtesting import Backtest, backtest
from overlimit.simulation.questions.closed_loops import Clients, ClosedLoop, closed_loop
from overlimit.simulation.questions.comparing import Comparison, compare
from overlimit.simulation.questions.effects import Effect
from overlimit.simulation.questions.levels import plot_level
from overlimit.simulation.questions.planning import NewlyRefused, newly_refused
from overlimit.simulation.questions.suggesting import Suggestion, suggest
from overlimit.simulation.questions.sweeping import Sweep, plot_sweep, sweep
from overlimit.simulation.replaying import Replay, replay
from overlimit.simulation.routes import RouteLimits

__all__ = [
    "Backtest",
    "BadLine",
    "BadLines",
    "Clients",
    "ClosedLoop",
    "Comparison",
    "Effect",
    "Error",
    "Event",
    "Events",
    "NewlyRefused",
    "Panel",
    "Replay",
    "RouteLimits",
    "Suggestion",
    "Sweep",
    "backtest",
    "closed_loop",
    "compare",
    "error_of",
    "explore",
    "newly_refused",
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

"""Figures of what limits did, drawn by matplotlib into axes of one's own or new ones."""

from overlimit.simulation.figures.effects import plot_comparison as plot_comparison
from overlimit.simulation.figures.effects import plot_sweep as plot_sweep
from overlimit.simulation.figures.level import plot_level as plot_level
from overlimit.simulation.figures.replays import plot_heatmap as plot_heatmap
from overlimit.simulation.figures.replays import plot_timeline as plot_timeline

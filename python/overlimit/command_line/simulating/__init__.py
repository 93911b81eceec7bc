"""The commands that say from logs which limits to set: they ask `overlimit.simulation`."""

"""A panel for notebooks, on which a limit is set by hand and its effect on events is seen at once."""

"""One module per command, by which Django finds it."""

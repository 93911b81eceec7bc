"""Real servers of the tests' own, each a process that is stopped by its own pid."""

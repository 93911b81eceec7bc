"""Whose requests they are: addresses, built-in identifiers, and what functions of the app return."""

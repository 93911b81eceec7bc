"""Callers in threads and processes on servers that fail at random, for as long as one likes."""

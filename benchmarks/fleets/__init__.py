"""Fleets of processes that limit on one server: their traffic, a model of them, and runs of real ones."""

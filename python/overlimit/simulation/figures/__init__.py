"""Figures of what limits did, drawn by matplotlib into axes of one's own or new ones."""

"""What every web framework needs: plans of limits per route, identities, names and header fields.

Nothing here knows a framework; ``overlimit.flask`` adapts it to Flask.
"""

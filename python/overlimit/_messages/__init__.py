"""How errors and warnings speak of what users wrote, and of what they should write instead."""

"""Which limits hold where, and in which counts."""

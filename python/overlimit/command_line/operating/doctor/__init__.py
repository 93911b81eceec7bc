"""``overlimit doctor``: whether a store is well, and what to do where it is not."""

"""A small shop under rate limits."""

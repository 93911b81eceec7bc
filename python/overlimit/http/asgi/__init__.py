"""What every adapter of ASGI shares: requests read from their scopes, and responses sent by messages."""

"""How objects look in notebooks."""

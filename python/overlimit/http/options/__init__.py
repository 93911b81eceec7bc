"""What may be said of limits: each option, how it is read and how it is checked."""

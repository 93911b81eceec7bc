"""Events: columns as people have them, made one thing."""

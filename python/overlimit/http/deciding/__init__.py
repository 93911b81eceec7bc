"""How a request is decided: rules compiled to calls to the stores, and what these answered."""

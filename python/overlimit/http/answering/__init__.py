"""What goes out: header fields, and the answer to a refused request."""

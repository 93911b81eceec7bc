"""What is logged, and how often."""

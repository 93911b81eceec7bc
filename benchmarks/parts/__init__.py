"""What is measured: each module is a part, whose ``contests`` yields what is compared in it."""

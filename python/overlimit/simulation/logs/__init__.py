"""Reading logs: files to pieces, pieces to tables, tables to events."""

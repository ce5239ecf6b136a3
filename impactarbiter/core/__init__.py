"""The C modules: what they answer, as plain data."""

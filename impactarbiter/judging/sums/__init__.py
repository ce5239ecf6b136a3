"""What there is in all, and how much of it findings explain."""

"""The user's source: what it may do with what is kept.  Nothing of it runs."""

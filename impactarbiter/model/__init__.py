"""Plain data: what is found, and what is handed on."""

"""What is known of frameworks and shells, as tables."""

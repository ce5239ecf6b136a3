"""What is remembered of each holder, from walk to visit to walk."""

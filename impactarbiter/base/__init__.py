"""Plain tools: errors, units, text, files, processes."""

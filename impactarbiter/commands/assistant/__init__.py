"""What a coding assistant may ask and do: the tools behind ``mcp``."""

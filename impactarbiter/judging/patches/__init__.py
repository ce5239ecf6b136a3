"""A patch: the statement that was seen, keeping less."""

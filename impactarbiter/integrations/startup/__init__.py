"""A folder for ``PYTHONPATH``: what Pythons below a watched one begin with."""

"""``watch()``, ``explain()``, ``snapshot()``, the recorder."""

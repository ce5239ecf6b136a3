"""Renderers of a report: one module each, all fed by findings alone."""

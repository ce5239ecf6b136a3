"""From what was seen to a verdict: rules, statements, patches."""

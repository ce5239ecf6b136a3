"""Into a process that runs: what it is, the way in, and what is said there.

Nothing here imports torch: the process that is asked has it.
"""

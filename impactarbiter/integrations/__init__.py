"""ImpactArbiter inside the tools that train and serve models.

One module per tool, imported only where it is used: nothing here imports
another package.  ``session`` is what they share, ``training_flags`` and
``import_hook`` serve scripts that know nothing of us.
"""

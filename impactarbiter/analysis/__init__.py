"""The analysis interface that users of gpumemprof (Stormlog) know."""

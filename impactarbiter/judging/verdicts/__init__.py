"""From a holder's past to a verdict, and what is told of it on the way."""

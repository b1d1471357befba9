"""Built-in pairs: a grammar of English and French, and random numbers."""

"""Other people's weights and formats: `imports/` reads them, `exports/` writes them, as model directories."""

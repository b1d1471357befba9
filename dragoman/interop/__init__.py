"""Other people's formats, as tables of names."""

"""How files of strangers are spelled, for those who read pairs and those who translate documents."""

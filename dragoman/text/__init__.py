"""One sentence: normal form, language, spelling, case, and the tokens that it is made of."""

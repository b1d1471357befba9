"""Files of our own, written completely or not at all."""

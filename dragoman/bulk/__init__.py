"""Any number of files translated into a folder."""

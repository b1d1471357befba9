"""What is compiled: one library of C for the engine and for training, and how it is loaded (library.py)."""

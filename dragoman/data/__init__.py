"""Many pairs: read, cleaned, held out, encoded, and batched."""

"""Pairs in files, one file for each format."""

"""The machine: devices, processes, files, signals, libraries."""

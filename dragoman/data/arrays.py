"""NumPy arrays, written to files."""

import io
from pathlib import Path

import numpy as np

from dragoman.system.atomic import naming, write_file


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array as .npy. Errors name the file, which those of numpy do not when a disk is full."""
    content = io.BytesIO()
    np.save(content, values)
    with naming(path):
        write_file(path, content.getbuffer())

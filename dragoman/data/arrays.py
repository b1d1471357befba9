"""Arrays in files."""

import io
from pathlib import Path

import numpy as np

from dragoman.system.atomic import naming


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array. Of a full disk numpy itself says neither what is full nor that it is."""
    content = io.BytesIO()
    np.save(content, values)
    with naming(path):
        path.write_bytes(content.getbuffer())

"""A figure that shows itself in notebooks."""

import io
import warnings

from matplotlib.figure import Figure
from matplotlib.text import Text

from dragoman.text.characters import well_formed

CSS_DPI = 96  # dots to an inch on a page


class Picture(Figure):
    """A figure that notebooks show in place, without pyplot, and sharp on screens of high resolution."""

    def draw(self, renderer: object) -> None:
        """Draw the figure; half characters, as file names that are no text have them, become U+FFFD."""
        for text in self.findobj(Text):
            text.set_text(well_formed(text.get_text()))
        super().draw(renderer)

    def to_png(self, *, dpi: int) -> bytes:
        """The picture as a PNG file on white; the same picture gives the same bytes."""
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box
            self.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
        return file.getvalue()

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The PNG file for Jupyter, and the size to show it at."""
        width, height = self.get_size_inches()
        return self.to_png(dpi=2 * CSS_DPI), {"width": round(CSS_DPI * width), "height": round(CSS_DPI * height)}

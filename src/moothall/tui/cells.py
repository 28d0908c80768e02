"""Text cut and filled to so many cells of a terminal; a letter of Chinese takes two of them."""

from rich.cells import cell_len, set_cell_size

from moothall.tui.printable import ELLIPSIS, steady_line


def fitted(text: str, width: int) -> str:
    """The text on a single line, at most `width` cells wide; an ellipsis stands for the rest."""
    text = steady_line(text)
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, width - 1).rstrip()}{ELLIPSIS}" if width > 0 else ""


def column(text: str, width: int, *, right: bool = False) -> str:
    """The same, filled with spaces to exactly `width` cells; `right` puts the text at the right edge."""
    text = fitted(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space

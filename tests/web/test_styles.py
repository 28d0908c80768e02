"""Style sheets that import others."""

from moothall.web.styles import joined


def test_parts_are_in_the_place_of_their_imports() -> None:
    page = {
        "a.js": b'@import "style/x.css";\n',
        "style.css": b'@import "style/y.css";\n@import "style/x.css";\nc {}\n',
        "style/x.css": b"a {}\n",
        "style/y.css": b"b {}\n",
    }
    assert joined(page) == {"a.js": page["a.js"], "style.css": b"b {}\na {}\nc {}\n"}


def test_an_import_of_a_missing_part_stays() -> None:
    page = {"style.css": b'@import "gone.css";\n'}
    assert joined(page) == page

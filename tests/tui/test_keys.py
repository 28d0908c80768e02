from moothall.tui.keys import KEYS, bindings, key_rows


def test_no_key_means_two_things() -> None:
    keys = [key for row in KEYS for key in row.keys.split(",")]
    assert len(keys) == len(set(keys))


def test_the_footer_shows_the_first_key() -> None:
    shown = {binding.description: binding.key_display for binding in bindings() if binding.show}
    assert shown["Help"] == "F1"
    assert shown["Quit"] == "Ctrl-Q"


def test_every_key_is_explained() -> None:
    rows = key_rows()
    assert all(name and meaning for name, meaning in rows)
    assert len({name for name, _ in rows}) == len(rows)

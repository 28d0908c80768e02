"""Imports that the garbage collector leaves alone."""

import gc

import pytest

from moothall.cli._imports import imports_that_stay


def test_no_search_for_garbage_during_imports_nor_in_what_they_made() -> None:
    gc.unfreeze()
    with imports_that_stay():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


def test_garbage_is_looked_for_again_after_an_import_that_failed() -> None:
    with pytest.raises(ImportError), imports_that_stay():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()

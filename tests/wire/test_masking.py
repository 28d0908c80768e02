"""The C function of `websockets` and our own say the same."""

import importlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire import masking


@pytest.fixture(scope="module")
def own() -> object:
    """What a version of `websockets` without the C function gets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "websockets.speedups", None)
        importlib.reload(masking)
        slower = masking.apply_mask
    importlib.reload(masking)
    assert masking.apply_mask is not slower
    return slower


def test_this_version_has_the_function_in_c() -> None:
    assert masking.apply_mask.__module__ == "websockets.speedups" or not hasattr(
        masking.apply_mask, "__code__"
    )


@given(data=st.binary(max_size=300), mask=st.binary(min_size=4, max_size=4))
def test_both_lay_the_mask_over_the_data(own: object, data: bytes, mask: bytes) -> None:
    assert callable(own)
    expected = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    assert masking.apply_mask(data, mask) == own(data, mask) == expected

"""How much hypothesis tries: `HYPOTHESIS_PROFILE=ci` for more, and the same every time."""

import os

from hypothesis import settings

# The machine may be busy with something else; time is no part of any property here.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

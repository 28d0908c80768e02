"""What an operator can choose, where each choice came from, and the profiles that set many at once."""

from moothall.settings.fields import Settings
from moothall.settings.profiles import PROFILES
from moothall.settings.sources import Chosen, load

__all__ = ["PROFILES", "Chosen", "Settings", "load"]

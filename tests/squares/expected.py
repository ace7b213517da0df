"""What the tests of all rooms expect of this one: the same as of any room that `saddlescope new` has written."""

from saddlescope.templates.expected import LINES, REFUTED

__all__ = ["LINES", "REFUTED"]

"""Puts this folder on the path of every test, so that `factories` can be imported from all of them."""

from hypothesis import settings

# A busy machine would miss hypothesis' deadline of 200 ms per example, and timing is never asserted here.
settings.register_profile("any_machine", deadline=None)
settings.load_profile("any_machine")

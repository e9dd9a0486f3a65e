"""Puts this folder on the path of every test, so that `factories` can be imported from all of them."""

import signal

from hypothesis import settings

# A busy machine would miss hypothesis' deadline of 200 ms per example, and timing is never asserted here.
settings.register_profile("any_machine", deadline=None)
settings.load_profile("any_machine")

# A shell that runs the tests in the background has SIGINT ignored, and scalewise would rightly go on ignoring it.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""Holds messages back: the parts of the change `emulate_link`, by which each takes as long as on a slower link."""

"""Holds messages back: the parts of the change `emulate_link`, which delay each until a slower link would be through."""

"""Puts this folder on the path of every test, so that `factories` can be imported from all of them."""

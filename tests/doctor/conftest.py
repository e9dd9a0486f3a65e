"""Puts this folder on the path of every test of the doctor, so that `case_factory` can be imported from all of them."""

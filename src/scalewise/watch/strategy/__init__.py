"""Divides a training among ranks.

Every rank runs the whole script. When the script first calls the model that its optimizer trains, the strategy makes
the process group and wraps the model; from then on calls of the model go through the wrapper. All ranks together have
the batch that one rank would have: see `shares.py` and `deferred.py`.
"""

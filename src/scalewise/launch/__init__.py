"""Starts ranks and watches over them: fork server or torchrun, supervision, and how a run ended."""

"""Questions that several checks ask of a case: about micro-batches, inputs, ranks, times, and the script's text."""

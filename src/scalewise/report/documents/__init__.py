"""The results of the verbs as documents: one file for each, and nothing in them of how it is shown."""

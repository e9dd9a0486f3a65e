"""The sections of a suite that has none of its own: each file has its `ORDER` and `build(evidence)`."""

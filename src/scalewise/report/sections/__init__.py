"""The general sections, for suites without their own: each file has its `ORDER` and `build(evidence)`."""

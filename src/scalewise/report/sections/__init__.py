"""One file per section: `SUITES` it belongs to, its `ORDER`, and `build(evidence)`, which gives a Section or None."""

"""Declares what to measure: suites in TOML, expanded into runs for a machine; no process is started here."""

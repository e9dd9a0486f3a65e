"""Declares what to measure: suites in TOML, expanded into runs for this machine; pure, no process is started here."""

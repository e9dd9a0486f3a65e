"""One file per check, each with `CHECK` and `examine`, and with `settle` if a replay can prove or price the finding."""

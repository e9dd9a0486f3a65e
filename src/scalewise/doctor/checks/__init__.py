"""One file per check, each with `CHECK` and `examine`, and `settle` where a replay proves or prices it."""

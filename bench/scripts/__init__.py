"""Training scripts that predictions are tried on, beside those that scalewise brings along."""

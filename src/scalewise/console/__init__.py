"""The only room that prints: data to stdout, narration to stderr, readable at 80 columns and without colour."""

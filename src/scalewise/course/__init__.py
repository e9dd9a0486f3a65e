"""The course's suites, tables and answers: a folder per suite with its experiments, a file per question."""

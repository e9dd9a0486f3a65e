"""The course: one folder a suite with its experiments, and one file a question with its table, figure and answers."""

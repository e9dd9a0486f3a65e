"""Does what a verb asks, without a terminal: from a request to a result, also for the calls from Python."""

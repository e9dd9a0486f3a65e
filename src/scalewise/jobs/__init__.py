"""The jobs: what the verbs and the calls from Python do, from a request to a result, without a terminal."""

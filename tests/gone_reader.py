"""A pipe whose reader has gone, as after `| head`."""

import io


class GoneReader(io.StringIO):
    """The writing end of a pipe that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError

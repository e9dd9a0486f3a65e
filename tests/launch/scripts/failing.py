"""Fails in a function, with a cause."""


def inner() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("outer") from error


inner()

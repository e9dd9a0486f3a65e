"""One process that never moves."""

import time


def stand_still() -> None:
    time.sleep(600)


stand_still()

"""Everything that a script may leave to the end of its interpreter."""

import atexit
import ctypes
import sys
import threading
import time


class Loud:
    def __del__(self) -> None:
        print("destructor")


def late() -> None:
    time.sleep(0.1)
    print("thread")


atexit.register(print, "atexit")
threading.Thread(target=late).start()
ctypes.CDLL(None).printf(b"native\n")
loud = Loud()
sys.stdout.write("no newline at the end")
sys.exit(7)

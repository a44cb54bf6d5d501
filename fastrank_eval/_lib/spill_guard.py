"""Remove a spill folder after the end of the process that filled it.

This is a program. It waits until its standard input is closed, which the system does for any
process that ends, and removes the folder. It imports nothing heavy: it starts in 10 ms.
"""

import shutil
import signal
import sys


def main() -> None:
    """Wait for the end of standard input, then remove the folder.

    The first argument names the folder.
    """
    for ignored in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, ignored):
            signal.signal(getattr(signal, ignored), signal.SIG_IGN)
    sys.stdin.buffer.read()
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()

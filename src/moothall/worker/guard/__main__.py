"""`python -m moothall.worker.guard`."""

import sys

from moothall.worker.guard.command_line import main

if __name__ == "__main__":
    sys.exit(main())

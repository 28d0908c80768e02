"""`python -m moothall.worker.supervisor`."""

import sys

from moothall.worker.supervisor.command_line import main

if __name__ == "__main__":
    sys.exit(main())

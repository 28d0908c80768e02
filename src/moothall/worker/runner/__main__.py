"""`python -m moothall.worker.runner`."""

import sys

from moothall.worker.runner.command_line import main

if __name__ == "__main__":
    sys.exit(main())

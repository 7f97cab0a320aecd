"""Registration methods side by side: `python bench.py --methods all`, `python bench.py --help`."""

import sys

from bench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

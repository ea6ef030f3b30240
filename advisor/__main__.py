"""``python -m advisor`` is the command ``advisor``."""

import sys

from advisor.cli import main

sys.exit(main())

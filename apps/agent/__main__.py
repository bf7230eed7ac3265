"""`python -m apps.agent`: the agent of a Pull member. The image has it as the command `lifeboat-agent`."""

import sys

from apps.agent.program import main

sys.exit(main())

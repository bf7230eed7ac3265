"""`python -m apps.command`: the command `lifeboat` from a checkout."""

from apps.command.program import main

main()

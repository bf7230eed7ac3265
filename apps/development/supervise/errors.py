"""What can stop the supervisor, said so that the reader can act."""


class SuperviseError(Exception):
    """Something the person at the terminal has to know; printed without a traceback."""

"""The error of the supervisor."""


class SuperviseError(Exception):
    """An error for the user at the terminal. It is printed without a traceback."""

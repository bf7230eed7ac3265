"""With what tests log in."""

PASSWORD = "correct-horse-battery"

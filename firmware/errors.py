"""The one exception for what a user can put right."""

__all__ = ["UserError"]


class UserError(Exception):
    """Bad input or a missing tool. The message is one line: the thing, then the remedy; the command exits with code 2."""

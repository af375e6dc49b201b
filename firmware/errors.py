"""The error that a user can mend."""

__all__ = ["UserError"]


class UserError(Exception):
    """One clear line naming the thing and its remedy; the command line prints it and exits with code 2."""

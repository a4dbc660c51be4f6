"""The command line: the only place where rooms are put together."""

"""The command line: every command is a thin layer over the Python names, and no error ends in a traceback."""

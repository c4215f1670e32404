"""`python -m tamis` is the `tamis` command."""

from tamis.cli.app import main

if __name__ == "__main__":
    main()

"""Lets `python -m scalewise` stand in for the installed command."""

from scalewise.cli import main

if __name__ == "__main__":
    main()

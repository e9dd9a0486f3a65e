"""Makes `python -m scalewise` do the same as the installed command."""

from scalewise.cli import main

if __name__ == "__main__":
    main()

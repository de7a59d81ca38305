"""`python -m unmask`: the command line, for launchers that start modules."""

from unmask.cli.main import main

if __name__ == "__main__":
    main()

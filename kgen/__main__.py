"""`python -m kgen`."""

from kgen.cli import main

if __name__ == "__main__":
    main()

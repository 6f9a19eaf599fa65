"""`python -m anchorbolt`: the same as the command `anchorbolt`."""

from anchorbolt.cli.main import main

if __name__ == "__main__":
    main()

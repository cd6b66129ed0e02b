"""`python -m grete`."""

from grete.cli import main

if __name__ == "__main__":
    main(prog_name="grete")

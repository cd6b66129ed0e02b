"""Entry point of `grete` and `python -m grete`."""

import sys


def main() -> None:
    """Runs the command in the arguments. `grete dev` and `grete demo` do without click, because their starts are
    measured in milliseconds.
    """
    if sys.argv[1:2] == ["dev"]:
        from grete._dev import command

        sys.exit(command.main(sys.argv[2:]))
    if sys.argv[1:2] == ["demo"]:
        from grete._demo import command as demo

        sys.exit(demo.main(sys.argv[2:]))
    from grete import _cli

    _cli.main(prog_name="grete")


if __name__ == "__main__":
    main()

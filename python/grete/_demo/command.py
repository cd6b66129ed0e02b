"""Arguments of `grete demo`, and its exit status."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from grete._demo.claims import InterruptedDemoError, new_claims
from grete._demo.picture import Picture, View
from grete.errors import GreteError

DESCRIPTION = """\
Shows a broker, a producer and an App in two processes, in this terminal: a record that always fails, its retries and
its dead letter, a killed process that comes back, and the replay of the dead letter. Needs nothing else, and leaves
nothing behind. Ends by itself within a minute; Ctrl-C ends it at once.
"""
EPILOG = """\
Exit status 0: all claims came true; 1: a claim did not, and the summary names it.
"""
EXIT_SIGPIPE = 141


def main(arguments: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    try:
        parser = _parser()
        options = parser.parse_args(arguments)
        if sys.stdout is None:
            return _fail("standard output is closed: send it to a file or a command, or to /dev/null")
        if options.help or options.app:
            # argparse would swallow the error of a write.
            source = Path(__file__).with_name("app").with_suffix(".py")
            sys.stdout.write(parser.format_help() if options.help else source.read_text())
            sys.stdout.flush()
            return 0
        return _run(Picture(new_claims()), plain=options.plain, web_port=options.web)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # before the demo handles signals, so before there is anything to clean up
    except GreteError as error:
        return _fail(str(error))
    except OSError as error:
        if error.filename is not None:
            return _fail(str(error))
        # Python would write the rest of its buffer at its end, and report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return EXIT_SIGPIPE
        return _fail(f"standard output cannot be written: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grete demo",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="Print this text, and end.")
    parser.add_argument("--plain", action="store_true", help="Print lines, as without a terminal.")
    parser.add_argument(
        "--web",
        nargs="?",
        const=8080,
        type=int,
        metavar="PORT",
        help="Also show the App in a browser, by grete web on this port (8080; 0: a free one), until Ctrl-C "
        '(pip install "grete[web]").',
    )
    parser.add_argument("--app", action="store_true", help="Print the App that the demo runs, and end.")
    return parser


def _fail(text: str) -> int:
    sys.stderr.write(f"Error: {text}\n")
    return 1


def _run(picture: Picture, *, plain: bool, web_port: int | None) -> int:
    view = _new_view(plain=plain)
    try:
        # The first frame comes before the imports of the broker and the clients.
        view.draw(picture)
        from grete._demo.stage import Stage
        from grete._demo.story import Story

        with Stage(picture, view, web_port) as stage:
            Story(stage).run()
            stage.keep_directory = bool(picture.failed())
    except InterruptedDemoError as error:
        view.close()
        sys.stderr.write("grete demo: interrupted; nothing is left\n")
        return 128 + error.number
    finally:
        view.close()
    from grete._demo.ending import summary

    sys.stdout.write(f"\n{summary(picture, stage.log)}")
    sys.stdout.flush()
    return 1 if picture.failed() else 0


def _new_view(*, plain: bool) -> View:
    draws = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and sys.stdout.encoding.lower() == "utf-8"
    if plain or not draws:
        from grete._demo.lines import Lines

        return Lines()
    from grete._demo.screen import Screen

    return Screen()

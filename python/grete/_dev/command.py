"""Arguments of `grete dev`."""

import argparse
import os
import sys
from collections.abc import Sequence

from grete import _native
from grete.broker import Broker

DESCRIPTION = """\
Runs Kafka brokers until Ctrl-C, for development and tests: no Java, no container.

With MODULE:APP it also runs the App on these brokers, as `grete run` does, and starts it again when a Python file
changes (pip install "grete[dev]"). Words after -- are options of `grete run`.
"""
EPILOG = """\
Without --data everything is lost at the end. Exit status 0: stopped; 1: the brokers cannot start or go on; otherwise
the status of the App that ended.
"""
DEFAULT_PORT = 9092
DEFAULT_WEB_PORT = 8080


def main(arguments: Sequence[str]) -> int:
    """Runs the command. Returns the exit status."""
    own, run_options = _split(list(arguments))
    parser = _parser()
    options = parser.parse_args(own)
    if options.help:
        return _print_help(parser)
    _check(parser, options, run_options)
    try:
        if options.features:
            return _print_features(options.as_version)
        broker = Broker(
            topics=dict(options.topic),
            brokers=options.brokers,
            data=options.data,
            fsync=options.fsync,
            port=options.port,
            host=options.host,
            advertised_host=options.advertised_host,
            allow_anyone=options.allow_anyone,
            memory=options.memory,
            version=options.as_version,
            log_to_stderr=True,
            tls=_tls_directory(options),
            mutual_tls=options.mutual_tls,
            sasl=dict(options.sasl),
            acls=options.acls,
            super_users=options.super_user,
        )
        from grete._dev.foreground import Foreground

        foreground = Foreground(broker, user=next((user for user, _ in options.sasl), None))
        if options.web is not None:
            foreground.add_web(options.web)
        if options.app is not None:
            foreground.add_app([options.app, *run_options], [] if options.no_reload else options.watch or ["."])
        return foreground.run()
    except Exception as error:
        from grete.errors import GreteError

        if not isinstance(error, GreteError):
            raise
        sys.stderr.write(f"Error: {error}\n")
        return 1


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, run_options: Sequence[str]) -> None:
    """Refuses options that would have no effect."""
    if options.app is None:
        if run_options:
            parser.error("options after -- are for an App: name it, like shop:app")
        if options.watch or options.no_reload:
            parser.error(f"--{'watch' if options.watch else 'no-reload'} is for an App: name it, like shop:app")
    if options.fsync and options.data is None:
        parser.error("--fsync needs --data DIR: without it nothing is stored")
    if options.data == "" or options.tls_dir == "":
        parser.error(f"--{'data' if options.data == '' else 'tls-dir'} needs the path of a directory, not an empty one")
    for directory in options.watch or []:
        if not os.path.isdir(directory):  # noqa: PTH112 (pathlib takes longer to import)
            parser.error(f'--watch: there is no directory "{directory}"')
    for what, names in (("topic", options.topic), ("sasl", options.sasl)):
        for number, (name, value) in enumerate(names):
            if any(earlier == name and other != value for earlier, other in names[:number]):
                parser.error(f'--{what} names "{name}" twice, with different values: name it once')


def _print_help(parser: argparse.ArgumentParser) -> int:
    """Writes the help. argparse would swallow the error of a write, such as a full disk."""
    try:
        sys.stdout.write(parser.format_help())
        sys.stdout.flush()
    except OSError as error:
        # Python would write the rest of its buffer at its end, and report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr.write(f"Error: standard output cannot be written: {error.strerror}\n")
        return 1
    return 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the words before and after `--`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grete dev",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="Print this text, and end.")
    add("app", nargs="?", metavar="MODULE:APP", help="App to run beside the brokers.")
    add(
        "--topic",
        action="append",
        default=[],
        type=_topic,
        metavar="NAME[:PARTITIONS]",
        help="Topic to create unless it exists; may be repeated.",
    )
    add("--data", metavar="DIR", help="Directory that keeps records, topics and groups, also over a kill.")
    add("--fsync", action="store_true", help="With --data: wait for the disk, so that a power loss loses nothing.")
    add("--brokers", type=int, default=1, metavar="N", help="Number of brokers, on ports PORT to PORT+N-1.")
    add("--port", type=int, default=DEFAULT_PORT, metavar="PORT", help="Port of the first broker (9092); 0: free ones.")
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on (127.0.0.1).")
    add("--advertised-host", metavar="NAME", help="Name by which clients connect, if not --host.")
    add(
        "--allow-anyone",
        action="store_true",
        help="Needed for a --host that others can reach, unless clients log in over TLS (--sasl and --tls). Without "
        "--sasl everyone who can reach the port can read, write and delete everything; without --tls passwords and "
        "records go over the network in plain text.",
    )
    add(
        "--tls",
        action="store_true",
        help="Encrypt connections with a certificate that is made at the start; prints what clients need.",
    )
    add("--tls-dir", metavar="DIR", help="As --tls, with the clients' files in DIR, where they stay.")
    add("--mutual-tls", action="store_true", help="As --tls, and clients must show the certificate that it makes.")
    add(
        "--sasl",
        action="append",
        default=[],
        type=_user,
        metavar="USER:PASSWORD",
        help="User who may log in (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; OAUTHBEARER takes unsecured tokens, and is off "
        "on a --host that others can reach); may be repeated. Clients then have to log in.",
    )
    add(
        "--acls",
        action="store_true",
        help="Refuse what no ACL allows, as Kafka's StandardAuthorizer does. `grete acls` adds ACLs.",
    )
    add(
        "--super-user",
        action="append",
        default=[],
        metavar="USER",
        help="As --acls, and USER may do everything, also add ACLs: a name of --sasl, or CN=NAME of a client's "
        "certificate; may be repeated.",
    )
    add("--memory", metavar="SIZE", help="Size of all records beyond which writes are refused (1GiB).")
    add("--as-version", metavar="VERSION", help="Release of Kafka to answer as, like 3.9.")
    add(
        "--web",
        nargs="?",
        const=DEFAULT_WEB_PORT,
        type=int,
        metavar="PORT",
        help="Serve `grete web` on this port (8080; 0: a free one), and make the App report to it "
        '(pip install "grete[web]").',
    )
    add("--watch", action="append", metavar="DIR", help="Directory whose Python files are watched (.); repeatable.")
    add("--no-reload", action="store_true", help="Do not start the App again when a file changes.")
    add("--features", action="store_true", help="List what the brokers implement and what not, and end.")
    return parser


def _tls_directory(options: argparse.Namespace) -> str | None:
    """Returns the directory for certificates: --tls-dir, part of --data, or one that is removed at the end."""
    if options.tls_dir is not None:
        return str(options.tls_dir)
    if not (options.tls or options.mutual_tls):
        return None
    if options.data is not None:
        return f"{options.data}/tls"
    import atexit
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="grete-tls-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon:
        return text, 1
    if not name or not partitions.isascii() or not partitions.isdigit():
        raise argparse.ArgumentTypeError(f'a topic is NAME or NAME:PARTITIONS, like "orders:8", not "{text}"')
    return name, int(partitions)


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError("a user is USER:PASSWORD, like alice:secret")
    return name, password


def _print_features(version: str | None) -> int:
    features = _native.broker_features(version)
    width = max(len(name) for name, _ in features)
    print(f"{'API':{width}}  VERSIONS")
    for name, versions in features:
        text = "not implemented" if versions is None else f"{versions[0]} to {versions[1]}"
        print(f"{name:{width}}  {text}")
    return 0

"""`jobwire broker ...`: run, render, check and administer the broker."""

import argparse
import os
import sys
from pathlib import Path

from jobwire.core.settings import DEFAULT_HOME, TLS_PORT
from jobwire.core.topics import DEFAULT_ROOT

_Subparsers = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `broker` to the umbrella command."""
    broker = subparsers.add_parser("broker", help="run, render, check and administer the MQTT broker")
    commands = broker.add_subparsers(dest="broker_command", required=True, metavar="COMMAND")
    _add_up(commands)


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "up",
        help="run a broker on this host in the foreground",
        description="Run a broker in the foreground, creating what is missing under the home directory.",
        epilog="example: jobwire broker up --port 8883",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: loopback)")
    parser.add_argument("--port", type=int, default=TLS_PORT, help=f"TLS port (default: {TLS_PORT})")
    parser.add_argument(
        "--topic-root", default=os.environ.get("MQTT_TOPIC_ROOT", DEFAULT_ROOT), help="root of the job topics"
    )
    parser.add_argument(
        "--beyond-loopback", action="store_true", help="let the embedded broker serve other hosts"
    )
    parser.add_argument("--json", action="store_true", help="print the ready line as JSON")
    parser.set_defaults(run=run_up)


def run_up(args: argparse.Namespace) -> int:
    """Run the broker; returns after SIGTERM or SIGINT."""
    # amqtt and cryptography are heavy: only this command pays for them.
    from jobwire.broker.embedded import EmbeddedBroker  # noqa: PLC0415
    from jobwire.broker.home import BrokerPaths, prepare_home  # noqa: PLC0415
    from jobwire.broker.serve import own_pid, ready_line, run_embedded  # noqa: PLC0415

    home = Path(getattr(args, "home", DEFAULT_HOME))
    prepare_home(home, port=args.port, topic_root=args.topic_root)
    broker = EmbeddedBroker(home=home, host=args.host, port=args.port, beyond_loopback=args.beyond_loopback)

    def announce() -> None:
        line = ready_line(
            host=broker.host,
            port=broker.port,
            ca_certs=BrokerPaths(home).ca.resolve(),
            pid=own_pid(),
            as_json=args.json,
        )
        print(line)
        sys.stdout.flush()

    run_embedded(broker, on_ready=announce)
    return 0

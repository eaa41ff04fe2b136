"""What `jobwire agent ticket` does: all that an agent on another host needs, in one secret file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.coordination.agent_ticket import AgentTicket, encode_agent_ticket
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.places import place_of
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.core.errors import InvalidInputError
from jobwire.core.roles import Role
from jobwire.core.settings import is_loopback
from jobwire.core.told import say
from jobwire.core.topics import check_agent
from jobwire.registry.actions import broker_pair, warn
from jobwire.registry.ticket_actions import certified_broker, print_secret
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.named_files import check_target
from jobwire.transport import load_settings

if TYPE_CHECKING:
    from argparse import Namespace


def ticket(args: Namespace) -> int:
    """Write the ticket of an agent, with a new key and certificate: earlier tickets of it end with that."""
    home = Path(place_of(args, os.environ).home)
    agent = check_agent(args.name)
    if agent == STORE_AGENT:
        raise InvalidInputError(
            f"{agent} is the store itself, to which all is open",
            hint="name the agent otherwise",
            code="forbidden",
        )
    overrides = dict(broker_pair(pair) for pair in args.broker)
    # Where the broker is; who the agent is there says its certificate.
    settings = load_settings(
        home=home, role=Role.REGISTRY, command_line=overrides, record={}, environ={}
    )._replace(username=None, password=None)
    if args.out != "-":
        check_target(args.out, "ticket")
    broker = certified_broker(
        home,
        settings,
        keep_port="port" in overrides,
        issue=lambda authority: authority.issue_agent(
            agent, lifetime_seconds=args.certificate_days * 86400.0, force=True
        ),
    )
    if is_loopback(settings.host):
        warn(f"the ticket names {settings.host}: on another host it needs --broker broker=NAME")
    key = AgentKeys(os.fspath(home)).renew(agent)
    payload = encode_agent_ticket(AgentTicket(agent, key, broker, settings.topic_root))
    if args.out == "-":
        print_secret(payload)
        return 0
    replace_durably(args.out, payload, files=SystemFiles())
    say(args, {"agent_id": agent, "out": args.out}, f"ticket of agent {agent} in {args.out}")
    return 0

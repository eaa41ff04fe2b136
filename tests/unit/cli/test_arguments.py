"""The arguments of commands stand apart from what the commands do, and name it rightly."""

from functools import cache

import pytest

from jobwire.cli.arguments import DOCUMENTS, SERVICES
from jobwire.cli.main import COMMANDS, _parser
from jobwire.cli.schema import json_schema
from jobwire.cli.unit import SERVICES as UNITS
from jobwire.core.commands import body_of
from jobwire.jobs.record import Priority
from jobwire.jobs.request_form import RequestKind
from jobwire.publisher.ask_options import KINDS
from jobwire.registry.arguments import PRIORITIES
from jobwire.subscriber.notifications import UNTIL
from jobwire.testing.command_line import commands_of

PARSER = cache(_parser)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_body(name: str) -> None:
    """What a parser names as the command's body is there."""
    for words, parser in commands_of(PARSER(name)):
        run = parser.get_default("run")
        assert run is None or callable(body_of(run)), words


def test_choices_are_the_bodies_own() -> None:
    """What help offers, the command knows."""
    assert tuple(UNITS) == SERVICES
    assert tuple(map(str, Priority)) == PRIORITIES
    assert tuple(map(str, RequestKind)) == KINDS
    assert all(json_schema(name) for name in DOCUMENTS if name != "asyncapi")
    watch = next(parser for words, parser in commands_of(PARSER("watch")) if words == ("watch",))
    (until,) = (action for action in watch._actions if action.dest == "until")
    assert list(until.choices or ()) == sorted(UNTIL)

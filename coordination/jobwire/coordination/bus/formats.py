"""Which formats `jobwire bus` knows: for each the module and function of this package that does it.

A function takes the store, a path and a run, and returns what `--json` prints; `problems` is a list of what
was left out, as lines for people.
"""

EXPORTS = {
    "message-bus": "message_bus_export:write_bus",
    "session": "session_export:write_session",
    "jsonl": "message_lines:write_lines",
}
IMPORTS = {"message-bus": "message_bus_import:read_bus", "session": "session_import:read_session"}

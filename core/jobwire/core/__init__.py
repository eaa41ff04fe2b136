"""The rules of jobwire without any I/O.

Import from the modules: `event`, `admission`, `lifecycle`, `record`, `fold`, `signature`, `topics`,
`settings`, `errors`. Nothing is gathered here, so that `publish_event` loads only what it needs
(docs/adr/0003): `models` brings pydantic, the others do not.
"""

__all__: list[str] = []

"""pydantic models of what comes from outside, made from the fields' rules; `jobwire schema` prints them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator, WithJsonSchema, create_model

from jobwire.core.fields import Rule, Rules, constant
from jobwire.jobs import event, record, snapshot


def _checked(rule: Rule) -> Callable[[object], object]:
    def read(value: object) -> object:
        try:
            return rule.read(value)
        except ValueError as error:
            raise ValueError(f"not {rule.says}") from error

    return read


def _model(
    title: str,
    doc: str,
    rules: Rules,
    *,
    optional: Mapping[str, object] = MappingProxyType({}),
    extra: str = "forbid",
) -> type[BaseModel]:
    """Return the model of what the rules take; `optional` has the defaults of what may be missing."""
    fields: dict[str, Any] = {
        name: (
            Annotated[Any, PlainValidator(_checked(rule)), WithJsonSchema(dict(rule.schema))],
            optional.get(name, ...),
        )
        for name, rule in rules.items()
    }
    config = ConfigDict(extra=extra, frozen=True, title=title)  # type: ignore[typeddict-item]  # forbid or allow
    return create_model(title, __config__=config, __doc__=doc, **fields)


EventModel = _model("event", "One event on the wire, schema_version 1.", event.FIELDS)
StateModel = _model(
    "state",
    "The retained, signed snapshot of a job's record.",
    snapshot.FIELDS,
    optional=snapshot.MAY_LACK,
)
RecordModel = _model(
    "record",
    "One job's record on disk; fields it does not know survive a rewrite.",
    {"schema_version": constant(record.RECORD_VERSION), **record.FIELDS},
    optional=record.MAY_LACK,
    extra="allow",
)
MODELS = {"event": EventModel, "record": RecordModel, "state": StateModel}

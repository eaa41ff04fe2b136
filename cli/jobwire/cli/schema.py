"""`jobwire schema`: the wire format for other languages, made from the models that check it."""

import argparse
import json

from jobwire.core.topics import DEFAULT_ROOT, JOB_ID_PATTERN
from jobwire.jobs.models import MODELS

Json = dict[str, object]


def run(args: argparse.Namespace) -> int:
    """Print the chosen document."""
    body = asyncapi() if args.document == "asyncapi" else json_schema(args.document)
    print(json.dumps(body, indent=2, ensure_ascii=False))
    return 0


def json_schema(name: str) -> Json:
    """Return the JSON Schema of one of MODELS."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[name].model_json_schema()}


def asyncapi() -> Json:
    """Return the AsyncAPI 3.0 description of the topic tree."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "jobwire",
            "version": "1",
            "description": "Signed job events over MQTT. QoS 1 everywhere; TLS 1.3.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "events": _channel("events", "One job's events; only terminal events are retained."),
            "state": _channel("state", "The signed snapshot of one job's record; always retained."),
        },
        "operations": {
            "say": _operation("send", "events", "The job's worker says what happens."),
            "watch": _operation("receive", "events", "A watcher follows a job."),
            "confirm": _operation("send", "state", "The registry process says what it holds durably."),
            "learn": _operation(
                "receive", "state", "A worker on another host learns of confirmation and cancellation."
            ),
        },
        "components": {
            "messages": {name: {"payload": MODELS[name].model_json_schema()} for name in ("event", "state")},
        },
    }


def _channel(kind: str, description: str) -> Json:
    message = "event" if kind == "events" else "state"
    return {
        "address": f"{DEFAULT_ROOT}/{{job_id}}/{kind}",
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "parameters": {"job_id": {"description": f"8 lower-case hex characters, {JOB_ID_PATTERN}"}},
        "bindings": {"mqtt": {"qos": 1, "retain": kind == "state"}},
    }


def _operation(action: str, channel: str, summary: str) -> Json:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}

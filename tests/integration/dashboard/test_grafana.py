"""The queries of the Grafana dashboard against the text that a real server gives to Prometheus."""

import http.client
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.metric_tables import speak, write_tables

BOARD = Path(__file__).resolve().parents[3] / "dashboard" / "grafana" / "jobwire.json"
# Prometheus itself adds this label to everything that it reads.
_ADDED_LABELS = {"instance"}
_SELECTOR = re.compile(r"\b(jobwire_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_BY = re.compile(r"\bby \(([^)]*)\)")


class Query(NamedTuple):
    """One query of a panel, taken apart."""

    metrics: set[str]
    matchers: list[tuple[str, str, str, str]]
    grouped: set[str]
    legend: set[str]


def queries() -> Iterator[Query]:
    """Yield every query of the dashboard."""
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield query_of(target["expr"], target["legendFormat"])


def rules() -> Iterator[Query]:
    """Yield every expression of the rules, but for those that ask only what the rules themselves record."""
    for group in yaml.safe_load((BOARD.parent / "rules.yml").read_text())["groups"]:
        for rule in group["rules"]:
            if "jobwire:" not in rule["expr"]:
                yield query_of(rule["expr"], "")


def query_of(expression: str, legend: str) -> Query:
    """Take an expression apart."""
    selectors = _SELECTOR.findall(expression)
    return Query(
        metrics={name for name, _ in selectors},
        matchers=[(name, *found) for name, inside in selectors for found in _MATCHER.findall(inside)],
        grouped={label.strip() for inside in _BY.findall(expression) for label in inside.split(",")},
        legend=set(re.findall(r"\{\{(\w+)\}\}", legend)),
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Read /metrics of a server with jobs, a journal and metric tables: metric -> label -> values."""
    writer = FleetWriter(tmp_path_factory.mktemp("grafana") / "home")
    job = writer.start("one")
    writer.journal(job, writer.next_event(job, "permission_required", "May I?")[1])
    now = time.time()
    write_tables(writer.home, int(now) // 30 * 30 - 600)
    speak(writer.home, updated_at=now)
    with DashboardProcess(writer.home) as server:
        answer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        answer.request("GET", "/metrics", headers={"authorization": server.authorization})
        text = answer.getresponse().read().decode()
        answer.close()
    writer.close()
    found: dict[str, Any] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for label, value in sample.labels.items():
                found[sample.name][label].add(value)
            found[sample.name]["__name__"].add(sample.name)
    return found


def test_every_metric_and_label_exists(exported: dict[str, dict[str, set[str]]]) -> None:
    """Each metric, label and label value that a panel or a rule names is in the exporter's output."""
    for query in (*queries(), *rules()):
        assert query.metrics
        for name in query.metrics:
            assert name in exported
            assert query.grouped - _ADDED_LABELS <= exported[name].keys(), name
        for name, label, operator, value in query.matchers:
            if label in _ADDED_LABELS:
                continue
            values = exported[name][label]
            assert value in values if operator in {"=", "!="} else any(re.fullmatch(value, v) for v in values)
        assert query.legend <= query.grouped


def test_every_metric_is_shown(exported: dict[str, dict[str, set[str]]]) -> None:
    """No figure of the exporter is left out of the dashboard."""
    assert {name for query in queries() for name in query.metrics} == exported.keys()

"""The Grafana dashboard and what compose.yaml needs for it are whole and fit together."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboard" / "grafana"
BOARD: dict[str, Any] = json.loads((FOLDER / "jobwire.json").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
ADDED = ("prometheus", "grafana")


def test_dashboard_is_whole() -> None:
    """It has what Grafana asks of a dashboard, ids are unique, and no panel lies upon another."""
    assert BOARD["uid"]
    assert BOARD["title"]
    assert BOARD["schemaVersion"] >= 36
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_dashboard_asks_a_source_that_can_be_chosen() -> None:
    """Every query names the data source by its variable, so that the file works wherever it is imported."""
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    for panel in BOARD["panels"]:
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for asked in (panel, *panel["targets"]):
            assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", ADDED)
def test_service_is_confined_and_pinned(name: str) -> None:
    """Behind a profile; a pinned version, a user without rights, a port on loopback, data that is kept."""
    service = COMPOSE["services"][name]
    assert name in service["profiles"]
    assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service["image"])
    assert not service["user"].startswith("0")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["healthcheck"]["test"][0] == "CMD"
    kept = {volume.split(":")[0] for volume in service["volumes"]} & COMPOSE["volumes"].keys()
    assert kept == {f"{name}-data"}


@pytest.mark.parametrize("name", [*ADDED, "dashboard"])
def test_service_mounts_what_is_there(name: str) -> None:
    """Files of the repository that it mounts exist, and its secrets are declared."""
    service = COMPOSE["services"][name]
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        assert not source.startswith("./") or (ROOT / source).exists(), source
    assert set(service["secrets"]) <= COMPOSE["secrets"].keys()


def test_prometheus_reads_the_page_as_compose_serves_it() -> None:
    """Target, scheme and secrets of the scrape are those of the services."""
    (scrape,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    (target,) = scrape["static_configs"][0]["targets"]
    host, port = target.split(":")
    command = COMPOSE["services"][host]["command"]
    assert command[command.index("--port") + 1] == port
    assert "--certfile" in command
    assert "--token-file" in command
    assert scrape["scheme"] == "https"
    secrets = {scrape["authorization"]["credentials_file"], scrape["tls_config"]["ca_file"]}
    assert secrets == {f"/run/secrets/{name}" for name in COMPOSE["services"]["prometheus"]["secrets"]}


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    """The provisioned source is the service beside it; the dashboard lies where the provider looks."""
    (source,) = yaml.safe_load((FOLDER / "provisioning/datasources/jobwire.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((FOLDER / "provisioning/dashboards/jobwire.yaml").read_text())["providers"]
    mounted = {volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]}
    assert f"{provider['options']['path']}/jobwire.json" in mounted


def test_every_recorded_ratio_is_alerted_on_and_every_alert_is_explained() -> None:
    """Alerts of the error budget ask what the rules record, name how bad it is, and where to look."""
    groups = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    alerts = [rule for rule in rules if "alert" in rule]
    asked = {name for rule in alerts for name in re.findall(r"jobwire:\w+:\w+", rule["expr"])}
    assert asked == recorded
    for alert in alerts:
        assert alert["labels"]["severity"] in {"page", "ticket"}
        assert alert["annotations"]["summary"]
        assert "`jobwire " in alert["annotations"]["description"]


def test_prometheus_finds_the_rules() -> None:
    """The file that prometheus.yml names is mounted there."""
    (name,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["rule_files"]
    assert f"./dashboard/grafana/rules.yml:{name}:ro" in COMPOSE["services"]["prometheus"]["volumes"]

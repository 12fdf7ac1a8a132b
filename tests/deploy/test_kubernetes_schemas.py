"""Every manifest is one that the API of each supported version of Kubernetes would take."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.deploy.kubernetes_files import EXAMPLE_NAMES, TOGETHER, example, flat, with_component
from tests.fakes.deploy_tools import run_tool
from tests.fakes.manifests import Document, workload_of

pytestmark = [pytest.mark.component("kubectl"), pytest.mark.component("deploy_tools")]

NATIVE = tuple(f"1.{minor}.0" for minor in range(29, 38))
"""The versions that know native sidecars by default, to the last that there are schemas of."""
OLDER = tuple(f"1.{minor}.0" for minor in range(25, 28))
SCHEMAS = Path(__file__).parents[1] / "data/kubernetes"
PROBE = Path(__file__).with_name("schema_probe.py")
Fault = tuple[str, str, str]


def schemas() -> dict[str, object]:
    """Of kinds that Kubernetes itself does not know."""
    return {path.stem: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}


def faults(documents: Mapping[str, Iterable[Document]], versions: Iterable[str]) -> list[Fault]:
    """What the schemas have against documents, by where these are from."""
    job = {
        "schemas": schemas(),
        "documents": [
            {"where": where, "document": one, "versions": list(versions)}
            for where, given in documents.items()
            for document in given
            for one in (document, *templates_of(document))
        ],
    }
    done = run_tool("python", PROBE, given=json.dumps(job))
    assert done.returncode == 0, done.stderr
    return [(where, version, what) for where, version, what in json.loads(done.stdout)]


def templates_of(document: Document) -> Iterator[Document]:
    """The pod templates of a kind whose schema does not look into them."""
    if document["kind"] == "LeaderWorkerSet":
        held = document["spec"]["leaderWorkerTemplate"]
        for name in ("leaderTemplate", "workerTemplate"):
            yield pod_template(name.lower(), held[name])


def pod_template(name: str, template: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": template,
    }


def all_native() -> dict[str, Iterable[Document]]:
    parts = ["sidecar", *(name for name in TOGETHER if name != "plain-container")]
    return {
        **{name: with_component(name) for name in parts},
        **{name: example(name) for name in EXAMPLE_NAMES},
        "flat": flat(),
    }


def test_every_manifest_is_valid_in_every_version_with_native_sidecars() -> None:
    assert not faults(all_native(), NATIVE)


def test_the_plain_form_is_valid_in_every_version() -> None:
    plain = {
        name: with_component(name, "plain-container")
        for name in ("sidecar", *TOGETHER)
        if name != "plain-container"
    }
    assert not faults(plain, (*OLDER, *NATIVE))


def test_the_native_form_is_refused_where_native_sidecars_are_not_known() -> None:
    found = faults({"sidecar": with_component("sidecar")}, OLDER)

    assert {version for _, version, _ in found} == set(OLDER)


def broken() -> Iterator[tuple[str, Document]]:
    """Manifests with one fault each."""
    workload = json.loads(json.dumps(workload_of(with_component("sidecar"))))
    workload["spec"]["template"]["spec"]["shareProcessNamespaces"] = True
    yield "workload", workload
    for name, component in (("monitor", "pod-monitor"), ("rule", "prometheus-rule")):
        kind = {"monitor": "PodMonitor", "rule": "PrometheusRule"}[name]
        (good,) = (one for one in with_component(component) if one["kind"] == kind)
        bad = json.loads(json.dumps(good))
        if name == "monitor":
            bad["spec"]["podMetricsEndpoints"][0]["interval"] = "fifteen"
        else:
            del bad["spec"]["groups"][0]["rules"][0]["expr"]
        yield name, bad
    (good,) = (one for one in example("leaderworkerset") if one["kind"] == "LeaderWorkerSet")
    bad = json.loads(json.dumps(good))
    leader = bad["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    leader["spec"]["initContainers"][0]["restart"] = "Always"
    yield "leader", bad
    bad = json.loads(json.dumps(good))
    bad["spec"]["leaderWorkerTemplate"]["leaderTemplates"] = {}
    yield "leaders", bad
    yield "unknown", {"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "n"}}


def test_a_fault_is_found() -> None:
    cases = {name: [document] for name, document in broken()}

    found = {where for where, _, _ in faults(cases, NATIVE[-1:])}

    assert found == set(cases)

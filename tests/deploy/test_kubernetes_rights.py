"""What each component costs in rights is what it says, and no more."""

import json
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.deploy.kubernetes_files import (
    EXAMPLE_NAMES,
    FLAT,
    TOGETHER,
    example,
    flat,
    with_component,
)
from tests.deploy.pod_security import level_of
from tests.fakes.deploy_tools import run_tool
from tests.fakes.manifests import COMPONENTS, KUBERNETES, Document, sidecar_of, workload_of

pytestmark = pytest.mark.component("kubectl")

EVERY = ("sidecar", *TOGETHER)
ACCEPTED = Path(__file__).parents[1] / "data/kubernetes/accepted_findings.toml"
STATED = re.compile(r"^# Pod Security: (restricted|baseline|privileged)\b", re.MULTILINE)
READ_ONLY = {"get", "list", "watch"}
RULES = {
    "log-api": [(["pods/log"], ["get"])],
    "pod-status-api": [(["pods"], ["get", "list", "watch"])],
}
HOST_PATHS = {
    "cgroup-hostpath": {"/sys/fs/cgroup"},
    "log-cri-hostpath": {"/var/log/pods"},
}


def stated_level(name: str) -> str:
    """The level that a component says pods keep; one that does not touch pods says nothing."""
    found = STATED.search((COMPONENTS / name / "kustomization.yaml").read_text())
    return "restricted" if found is None else found[1]


def template_with(name: str) -> Document:
    template: Document = workload_of(with_component(name))["spec"]["template"]
    return template


@pytest.mark.parametrize("name", EVERY)
def test_a_pod_keeps_the_level_that_the_component_says(name: str) -> None:
    assert level_of(template_with(name)) == stated_level(name)


@pytest.mark.parametrize("name", EVERY)
def test_the_readme_says_the_same_level(name: str) -> None:
    text = (KUBERNETES / "README.md").read_text()
    (row,) = re.findall(rf"^\| `{name}` \|.*$", text, re.MULTILINE)

    level = row.split("|")[-2].strip()
    assert level == (stated_level(name) if "Pod Security" in comment_of(name) else "")


def comment_of(name: str) -> str:
    text = (COMPONENTS / name / "kustomization.yaml").read_text()
    return "\n".join(line for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize("name", EVERY)
def test_a_component_says_which_rights_it_takes(name: str) -> None:
    assert "Rights:" in comment_of(name)


def test_the_one_file_and_the_examples_keep_their_levels() -> None:
    assert level_of(workload_of(flat())["spec"]["template"]) == "restricted"
    assert level_of(workload_of(example("vllm-deployment"))["spec"]["template"]) == "restricted"
    assert level_of(workload_of(example("production-stack"))["spec"]["template"]) == "baseline"
    (lws,) = (one for one in example("leaderworkerset") if one["kind"] == "LeaderWorkerSet")
    for template in ("leaderTemplate", "workerTemplate"):
        assert level_of(lws["spec"]["leaderWorkerTemplate"][template]) == "restricted"


@pytest.mark.parametrize(
    ("field", "value", "level"),
    [
        ("privileged", True, "privileged"),
        ("capabilities", {"drop": ["ALL"], "add": ["SYSLOG"]}, "privileged"),
        ("capabilities", {"drop": ["ALL"], "add": ["CHOWN"]}, "baseline"),
        ("capabilities", {}, "baseline"),
        ("allowPrivilegeEscalation", True, "baseline"),
        ("runAsNonRoot", False, "baseline"),
        ("runAsUser", 0, "baseline"),
        ("seccompProfile", {"type": "Unconfined"}, "privileged"),
    ],
)
def test_a_level_is_lost_by_what_it_forbids(field: str, value: object, level: str) -> None:
    template = json.loads(json.dumps(template_with("sidecar")))

    sidecar_of(template)["securityContext"][field] = value

    assert level_of(template) == level


def test_host_paths_are_the_ones_that_are_named_and_read_only() -> None:
    for name in EVERY:
        template = template_with(name)
        paths = {
            volume["name"]: volume["hostPath"]["path"]
            for volume in template["spec"]["volumes"]
            if "hostPath" in volume
        }
        assert set(paths.values()) == HOST_PATHS.get(name, set()), name
        mounts = {mount["name"]: mount for mount in sidecar_of(template).get("volumeMounts", [])}
        assert all(mounts[volume]["readOnly"] for volume in paths), name


def test_roles_allow_what_is_needed_to_read_in_our_own_namespace() -> None:
    for name in (*EVERY, *EXAMPLE_NAMES):
        documents = example(name) if name in EXAMPLE_NAMES else with_component(name)
        rules = [
            (rule["resources"], rule["verbs"])
            for one in documents
            if one["kind"] == "Role"
            for rule in one["rules"]
        ]
        assert all(set(verbs) <= READ_ONLY for _, verbs in rules)
        assert not [one for one in documents if one["kind"].startswith("ClusterRole")]
        if name in EVERY:
            assert rules == RULES.get(name, []), name


def test_the_token_is_the_sidecars_alone() -> None:
    template = template_with("log-api")

    assert template["spec"]["automountServiceAccountToken"] is False
    holders = [
        container["name"]
        for container in (*template["spec"]["containers"], *template["spec"]["initContainers"])
        for mount in container.get("volumeMounts", [])
        if mount["mountPath"].startswith("/var/run/secrets")
    ]
    assert holders == ["vllm-sidecar"]


@pytest.mark.component("deploy_tools")
def test_a_policy_linter_finds_what_is_accepted_and_nothing_else(tmp_path: Path) -> None:
    """With a policy for the network one finding is gone everywhere: pods of a label are one to it."""
    looked_at = [name for name in EVERY if name != "network-policy"]
    for name in looked_at:
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(with_component(name)))
    (tmp_path / FLAT.name).write_text(FLAT.read_text())

    options = ("--framework", "kubernetes", "--compact", "--skip-download", "-o", "json")
    done = run_tool("checkov", "-d", tmp_path, *options)

    accepted = tomllib.loads(ACCEPTED.read_text())
    everywhere = set(accepted.pop("everywhere"))
    told = json.loads(done.stdout)
    # It did look: some ninety checks of a workload pass.
    assert told["summary"]["passed"] > 50 * len(looked_at)
    found: dict[str, set[str]] = defaultdict(set)
    for one in told["results"]["failed_checks"]:
        found[Path(one["file_path"]).stem].add(one["check_id"])
    assert set.union(*found.values()) >= everywhere
    special = {name: checks - everywhere for name, checks in found.items()}
    assert {name: checks for name, checks in special.items() if checks} == {
        name: set(reasons) for name, reasons in accepted.items()
    }

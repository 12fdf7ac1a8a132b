"""What ``--log`` may say, and what it may not."""

import pytest

from sidecar.sources.log_places.container_files import Layout
from sidecar.sources.log_places.spec import (
    FileSpec,
    JournalSpec,
    KubernetesSpec,
    LogSpec,
    StdinSpec,
    parse_spec,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("/var/log/vllm.log", FileSpec("/var/log/vllm.log")),
        ("logs/*.log", FileSpec("logs/*.log")),
        ("./a:b", FileSpec("./a:b")),
        ("./stdin", FileSpec("./stdin")),
        ("journald", FileSpec("journald")),
        ("cri:/var/log/pods/a_b_c/vllm", FileSpec("/var/log/pods/a_b_c/vllm", Layout.CRI)),
        ("docker:/x-json.log", FileSpec("/x-json.log", Layout.DOCKER)),
        ("journald:vllm@1.service", JournalSpec("vllm@1.service")),
        ("kubernetes:vllm", KubernetesSpec("vllm")),
        ("kubernetes:ns/vllm-0/vllm", KubernetesSpec("vllm", "ns", "vllm-0")),
        ("stdin", StdinSpec()),
    ],
)
def test_every_form_is_known(text: str, spec: LogSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "cri:",
            "docker: ",
            "stdin:",
            "stdin:0",
            "journal:vllm",
            "https://x/log",
            "a\0b",
        ),
        *("journald:", "journald:--merge", "journald:a b", "journald:a\nb", "journald:a/b"),
        *(
            "kubernetes:",
            "kubernetes:A",
            "kubernetes:a/b",
            "kubernetes:a/b/c/d",
            "kubernetes:../x/y",
        ),
        *("kubernetes:a//c", "kubernetes:a?x=1", "/" + "x" * 5000),
    ],
)
def test_anything_else_is_refused_in_one_line_that_does_not_repeat_it(text: str) -> None:
    with pytest.raises(ValueError, match="not ") as refused:
        parse_spec(text)
    said = str(refused.value)
    assert "\n" not in said
    secret = text.rpartition(":")[2].strip()
    assert len(secret) < 2 or secret not in said

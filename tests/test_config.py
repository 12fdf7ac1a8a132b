"""Settings come from command line, environment, file and defaults, in this order, and are frozen."""

import os
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any

import pytest

from sidecar import cli
from sidecar.config import DEFAULTS, Settings, load
from sidecar.errors import ConfigError


@dataclass(frozen=True)
class Option:
    """One setting: three texts, and the values they stand for."""

    name: str
    texts: tuple[str, str, str]
    values: tuple[Any, Any, Any]
    in_file: str = "'{}'"


OPTIONS = (
    Option("target", ("http://a:1", "http://b:2", "https://c"), ("http://a:1", "http://b:2", "https://c")),
    Option("metrics_path", ("/a", "/b", "/c"), ("/a", "/b", "/c")),
    Option("health_path", ("/a", "/b", "/c"), ("/a", "/b", "/c")),
    Option("target_ca_file", ("a", "b", "c"), (Path("a"), Path("b"), Path("c"))),
    Option("target_token_file", ("a", "b", "c"), (Path("a"), Path("b"), Path("c"))),
    Option("interval", ("1s", "2500ms", "5s"), (1.0, 2.5, 5.0)),
    Option("window", ("30s", "1m", "1h"), (30.0, 60.0, 3600.0)),
    Option("listen", ("0.0.0.0:1", "[::1]:2", "h:3"), ("0.0.0.0:1", "[::1]:2", "h:3")),
    Option("web_config_file", ("a", "b", "c"), (Path("a"), Path("b"), Path("c"))),
    Option("log", ("/a", "/b", "/c"), (["/a"], ["/b"], ["/c"]), "['{}']"),
    Option("state_dir", ("/a", "/b", "/c"), (Path("/a"), Path("/b"), Path("/c"))),
    Option("history", ("1h", "12h", "30m"), (3600.0, 43200.0, 1800.0)),
    Option("cgroup", ("off", "/b", "auto"), ("off", "/b", "auto")),
    Option("pid", ("11", "12", "auto"), (11, 12, "auto")),
    Option("kernel_log", ("off", "/b", "auto"), ("off", "/b", "auto")),
    Option("kubernetes", ("off", "vllm", "auto"), ("off", "vllm", "auto")),
    Option("gpu", ("off", "0,3", "auto"), ("off", "0,3", "auto")),
    Option("envelope", ("a", "b", "c"), (Path("a"), Path("b"), Path("c"))),
    Option("max_preemptions_per_request", ("0", "0.5", "2"), (0.0, 0.5, 2.0), "{}"),
    Option("max_engines", ("1", "2", "64"), (1, 2, 64), "{}"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VLLM_SIDECAR_")]:
        monkeypatch.delenv(name)


def load_line(*arguments: str) -> Settings:
    given = cli.build_parser().parse_args(["run", *arguments])
    return load(cli.settings_given(given), file=given.config)


def test_the_table_above_has_every_setting() -> None:
    assert [option.name for option in OPTIONS] == list(DEFAULTS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_command_line_beats_the_environment_and_that_the_file(
    option: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, environment, file = option.texts
    path = tmp_path / "sidecar.toml"
    path.write_text(f"{option.name} = {option.in_file.format(file)}\n")
    flag = f"--{option.name.replace('_', '-')}"
    settings = [load_line(), load_line("--config", str(path))]
    monkeypatch.setenv(f"VLLM_SIDECAR_{option.name.upper()}", environment)
    settings.append(load_line("--config", str(path)))
    settings.append(load_line("--config", str(path), flag, line))
    default, *found = [getattr(one, option.name) for one in settings]
    assert default == DEFAULTS[option.name]
    assert found == list(reversed(option.values))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_settings_are_frozen(option: Option) -> None:
    settings = load({})
    with pytest.raises(FrozenInstanceError):
        setattr(settings, option.name, option.values[0])


def test_a_sum_of_places_is_checked_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text("window = '12s'\n")
    with pytest.raises(ConfigError, match="multiple"):
        load({}, file=path)
    monkeypatch.setenv("VLLM_SIDECAR_INTERVAL", "4s")
    settings = load({}, file=path)
    assert (settings.interval, settings.window) == (4.0, 12.0)


def test_several_logs_are_given_as_often_as_the_option() -> None:
    assert load_line("--log", "/a", "--log", "/b,c").log == ["/a", "/b,c"]


def test_several_logs_stand_in_the_environment_with_commas_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_SIDECAR_LOG", "/a,/b")
    assert load({}).log == ["/a", "/b"]


def test_small_letters_in_the_environment_are_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text("interval = '3s'\n")
    monkeypatch.setenv("vllm_sidecar_interval", "1s")
    assert load({}, file=path).interval == 1.0
    monkeypatch.setenv("vllm_sidecar_intervall", "1s")
    with pytest.raises(ConfigError, match="vllm_sidecar_intervall"):
        load({})


def test_a_trailing_slash_of_the_target_is_no_part_of_the_path() -> None:
    assert load({"target": "http://h:1/"}).target == "http://h:1"


def test_the_gpus_that_were_named_are_watched() -> None:
    assert load({"gpu": "0,3"}).gpu_indexes == (0, 3)
    assert load({}).gpu_indexes is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", "ftp://h"),
        ("target", "http://u:secret@h"),
        ("target", 8000),
        ("metrics_path", "metrics"),
        ("target_ca_file", 3),
        ("interval", 5),
        ("interval", "10ms"),
        ("interval", "soon"),
        ("window", "7s"),
        ("listen", "9477"),
        ("listen", "h:99999"),
        ("log", [""]),
        ("log", [3]),
        ("log", 3),
        ("cgroup", True),
        ("pid", "0"),
        ("pid", "-1"),
        ("pid", "me"),
        ("pid", True),
        ("pid", "9" * 30),
        ("kubernetes", ""),
        ("gpu", "0,"),
        ("gpu", 0),
        ("max_preemptions_per_request", "-1"),
        ("max_preemptions_per_request", "nan"),
        ("max_preemptions_per_request", "0_1"),
        ("max_engines", "0"),
        ("max_engines", "65"),
        ("max_engines", 2.5),
        ("max_engines", "²"),
        ("max_engines", True),
    ],
)
def test_a_value_that_cannot_be_honoured_is_refused_in_one_line_without_it(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError) as refused:
        load({name: value})
    said = str(refused.value)
    assert "\n" not in said
    assert name.replace("_", "-") in said
    assert len(str(value)) < 3 or f" {value}" not in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("log", "/a,,/b", ["/a", "/b"]),
        ("log", "", []),
        ("pid", 17, 17),
        ("pid", "4194304", 4194304),
        ("max_preemptions_per_request", "1e-3", 0.001),
        ("max_preemptions_per_request", ".5", 0.5),
        ("max_preemptions_per_request", 2, 2.0),
        ("max_engines", 64, 64),
        ("target_ca_file", Path("a"), Path("a")),
        ("cgroup", "", ""),
    ],
)
def test_values_are_read_as_words_or_as_what_they_are(
    name: str, value: object, read: object
) -> None:
    assert getattr(load({name: value}), name) == read

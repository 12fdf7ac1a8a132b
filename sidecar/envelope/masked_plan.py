"""What of a plan may be kept beside the results: its text, or the plan written anew without its secrets."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from sidecar.envelope.plan import Plan
from sidecar.parse.secrets import (
    HIDDEN,
    Secrets,
    hide_argv,
    is_secret_name,
    secrets_of_argv,
    secrets_of_environment,
)

Table = Mapping[str, Any]
ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
NOTE = "# Written anew without the secrets of the plan that was run.\n"


def mask_plan(text: str, plan: Plan, environment: Mapping[str, str]) -> str:
    """The text of a plan as it stands if it holds no secret, else the same plan without.

    ``environment``: our own, whose secrets must not stand in it either.
    """
    lines = [stage.command for stage in plan.stages] + [split_line(plan.rollback or "")]
    secrets = learn(lines, environment)
    has_secrets = any(named_secrets(words) for words in lines)
    if not has_secrets and secrets.hide(text) == text:
        return text
    told = tomllib.loads(text)
    for part in (told, *told["stage"]):
        if "command" in part:
            command = part["command"]
            words = split_line(command) if isinstance(command, str) else command
            part["command"] = [secrets.hide(word) for word in mask_words(words)]
    if "sidecar" in told:
        told["sidecar"] = secrets.hide(told["sidecar"])
    if "rollback" in told:
        told["rollback"] = {"command": mask_line(plan.rollback or "", environment)}
    return NOTE + write_toml(told)


def mask_line(line: str, environment: Mapping[str, str]) -> str:
    """A shell's line without its secrets; one that holds none stays as it is."""
    words = split_line(line)
    secrets = learn([words], environment)
    if named_secrets(words):
        line = join_line(mask_words(words))
    return str(secrets.hide(line))


def join_line(words: Sequence[str]) -> str:
    """Words as a shell takes them; what is set in front of a command stays unquoted, or it is none."""
    names = list(takewhile(ASSIGNED.match, words))
    parts = [word.partition("=") for word in names]
    quoted = [f"{name}={HIDDEN if v == HIDDEN else shlex.quote(v)}" for name, _, v in parts]
    return " ".join((*quoted, *(shlex.quote(word) for word in words[len(names) :])))


def learn(lines: Sequence[Sequence[str]], environment: Mapping[str, str]) -> Secrets:
    """The secrets of command lines, of the variables set in them, and of the environment."""
    secrets = Secrets()
    secrets.learn(secrets_of_environment(environment))
    for words in lines:
        secrets.learn(secrets_of_argv(words))
        secrets.learn(value for _, value in settings_in(words))
    return secrets


def settings_in(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Words ``NAME=value`` of which the name is a secret's, by their place."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and value and is_secret_name(name):
            yield at, value


def named_secrets(words: Sequence[str]) -> bool:
    """Whether a word stands where a secret does."""
    return list(words) != mask_words(words)


def mask_words(words: Sequence[str]) -> list[str]:
    """Words with their secrets hidden, also those too short to be looked for elsewhere."""
    masked = hide_argv(words)
    for at, _ in settings_in(words):
        masked[at] = f"{words[at].partition('=')[0]}={HIDDEN}"
    return masked


def split_line(line: str) -> Sequence[str]:
    """The words of a shell's line, as well as they can be told."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def write_toml(told: Table, path: str = "") -> str:
    """A table as TOML: values first, then its tables and lists of tables."""
    plain = [(key, value) for key, value in told.items() if not is_table(value)]
    text = "".join(f"{write_key(key)} = {write_value(value)}\n" for key, value in plain)
    for key, value in told.items():
        name = f"{path}{write_key(key)}"
        if isinstance(value, dict):
            text += f"\n[{name}]\n{write_toml(value, f'{name}.')}"
        elif is_table(value):
            text += "".join(f"\n[[{name}]]\n{write_toml(one, f'{name}.')}" for one in value)
    return text


def is_table(value: object) -> bool:
    """Whether a value is a table, or a list of tables."""
    is_list = isinstance(value, list) and bool(value)
    return isinstance(value, dict) or (is_list and all(isinstance(v, dict) for v in value))  # type: ignore[attr-defined]  # it is a list


def write_key(key: str) -> str:
    """A key, quoted where it must be."""
    is_bare = bool(key) and key.isascii() and all(c.isalnum() or c in "_-" for c in key)
    return key if is_bare else write_value(key)


def write_value(value: object) -> str:
    """A plain value. JSON's texts are TOML's but for DEL, which TOML has escaped."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(write_value(one) for one in value)}]"
        case _:
            return str(value)

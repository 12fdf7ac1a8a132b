"""Text in, the same text without what must not leave this machine: keys, tokens, passwords, ids. Pure.

Two nets: values that are known to be secret are taken out wherever they stand; forms that secrets and
ids of requests have are taken out whoever's they are. Too much rather than too little.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

HIDDEN: Final = "***"
KNOWN_LEAST: Final = 6
"""Characters of a known secret that is looked for in other text: shorter ones stand in ordinary words."""

_OF_TEXT: Final = ("inter", "eos", "bos", "pad", "unk", "next", "per", "sep", "mask", "stop")
"""What stands before ``token`` where it is one of a text."""
_NAME: Final = (
    r"(?:(?:[\w.-]{0,64}[-_.])?(?:api[-_]?keys?|password|passwd|passphrase|secret(?:[-_]?key)?"
    r"|access[-_]?key(?:[-_]?id)?|private[-_]?key|signing[-_]?key|credentials?|cookie|authorization"
    r"|client[-_]?secret|(?:access|auth|refresh|id)token|dsn|sig|signature)"
    r"|[\w.-]{0,64}[-_.](?:keys?|pwd|pass|pat|auth)"
    rf"|[\w.-]{{0,64}}{''.join(f'(?<!{word})' for word in _OF_TEXT)}[-_.]token|token)"
)
"""Names of secrets; ``tokens``, ``tokenizer``, ``inter_token`` and ``max_num_batched_tokens`` are none."""
_SECRET_NAME: Final = re.compile(rf"{_NAME}|pwd|pass|auth", re.IGNORECASE)
_SECRET_VARIABLE: Final = re.compile(
    r"(?:.*_)?(?:TOKEN|KEYS?|PASS|PASSWD|PASSPHRASE|PWD|PAT|AUTH|SECRETS?|CREDENTIALS?|COOKIE|DSN)(?:_.*)?"
    r"|\w*(?:PASSWORD|SSHPASS|APIKEY|TOKEN)",
    re.IGNORECASE,
)
"""Names of variables that may hold a secret."""
_SURE: Final = re.compile(r".*(?:API_?KEY|TOKEN|PASSWORD|SECRET).*", re.IGNORECASE)
_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_WORD: Final = re.compile(r"[a-z]+|[0-9]{1,8}")
"""What is a word of everyday, or a number, is hidden only where its name says that it is secret."""
_QUOTED: Final = re.compile(
    rf"""(?ix) (?<![\w.-]) {_NAME} ['"] \s{{0,8}} : \s{{0,8}} ['"]([^'"]{{1,4096}})['"]"""
)
_PASSWORD: Final = re.compile(r"://[^:/@\s]{0,128}:([^\s]{1,512})@")
_TELLING: Final = frozenset({"-u", "--user", "--proxy-user", "-H", "--header", "--headers"})
"""Options of clients whose values hold a password, or a header of a request."""
_FORMS: Final = (
    (
        re.compile(r"(?i)(\bauthorization\\*['\"]?\s{0,8}[:=]\s{0,8}\\*['\"]?)[^'\"\\\n]{1,4096}"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(?:bearer|basic) +[\w.~+/=-]{5,}"), HIDDEN),
    (re.compile(rf"(?i)(?<!\S)(--?{_NAME}) +(?!-)\S+"), rf"\1 {HIDDEN}"),
    # name: value, name=value, "name": ["value", "value"], "name": {...}
    (
        re.compile(
            rf"""(?ix) ((?<![\w.-]) {_NAME} \\*['"]? \s{{0,8}} [:=] \s{{0,8}})
            (?: \[ [^\]]{{0,4096}} \] | \{{ [^}}]{{0,4096}} \}} | \\*"[^"]{{0,4096}}"
            | \\*'[^']{{0,4096}}' | [^\s,;&}}\])'"]+ )"""
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(?:hf|ghp|gho|ghs|ghu|glpat|xox[abpr]|sk|pk|rk|nvapi)[_-][\w-]{10,}"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), HIDDEN),
    # What stands between the scheme and the host, and behind the path of an address.
    (re.compile(r"(?<=://)[^\s'\"\\]{1,512}@"), f"{HIDDEN}@"),
    (re.compile(r"(\w://[^\s'\"\\?#]{0,512})[?#][^\s'\"\\]*"), rf"\1?{HIDDEN}"),
    # Ids of requests hold what a client put into X-Request-Id.
    (
        re.compile(
            r"\b(?:chatcmpl|cmpl|embd|pool|score|rerank|classify|resp|transcribe)-[^\s,'\"\]}\\]+"
        ),
        HIDDEN,
    ),
)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name.lstrip("-")) is not None


def is_secret_variable(name: str) -> bool:
    """Whether a variable of this name may hold a secret."""
    if name in _NO_SECRETS:
        return False
    return is_secret_name(name) or _SECRET_VARIABLE.fullmatch(name) is not None


def hide_forms(text: str) -> str:
    """The text without what has the form of a secret or of a request's id."""
    for form, instead in _FORMS:
        text = form.sub(instead, text)
    return text


@dataclass(slots=True)
class Secrets:
    """Known secrets, which are taken out of any text."""

    known: set[str] = field(default_factory=set)

    def learn(self, values: Iterable[str]) -> None:
        """Take out these from now on, as they are and as JSON writes them."""
        for value in values:
            if len(value) >= KNOWN_LEAST:
                self.known |= {
                    value,
                    json.dumps(value)[1:-1],
                    json.dumps(value, ensure_ascii=False)[1:-1],
                }

    def hide_known(self, text: str) -> str:
        """The text without known secrets."""
        for value in sorted(self.known, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text

    def hide(self, value: object) -> object:
        """A value of JSON of which every text is without known secrets and what has a secret's form."""
        match value:
            case str():
                return hide_forms(self.hide_known(value))
            case list() | tuple():
                return [self.hide(one) for one in value]
            case dict():
                return {self.hide_known(str(name)): self.hide(one) for name, one in value.items()}
            case _:
                return value


def secrets_of_argv(argv: Sequence[str]) -> Iterable[str]:
    """The values of options whose names say that they are secret, also within a shell's line or JSON."""
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        yield from _PASSWORD.findall(word)
        yield from _QUOTED.findall(word)
        yield from named_values(word)
        if " " in word:
            yield from secrets_of_argv(split_line(word))
        if equals and not name.startswith("-"):
            yield from secrets_of_environment({name: value})
        if not name.startswith("-"):
            continue
        if name in _TELLING:
            told = value if equals else "".join(argv[at + 1 : at + 2])
            value_told = told.partition(":")[2].strip()
            yield from (value_told, value_told.rpartition(" ")[2])
        if not is_secret_name(name):
            continue
        yield from (value,) if equals else values_behind(argv, at)


def named_values(word: str) -> Iterator[str]:
    """The texts that stand under the names of secrets in an argument that is JSON."""
    if not word.lstrip().startswith(("{", "[")):
        return
    try:
        told = json.loads(word)
    except (ValueError, RecursionError):
        return
    yield from texts_in(told, is_secret=False)


def texts_in(value: object, *, is_secret: bool) -> Iterator[str]:
    """The texts in a value of JSON that are under the name of a secret."""
    match value:
        case dict():
            for name, one in value.items():
                is_named = is_secret or is_secret_name(spaced(str(name)))
                yield from texts_in(one, is_secret=is_named)
        case list():
            for one in value:
                yield from texts_in(one, is_secret=is_secret)
        case str() if is_secret:
            yield value
        case _:
            return


def values_behind(argv: Sequence[str], at: int) -> Iterator[str]:
    """The words behind an option up to the next one."""
    for following in argv[at + 1 :]:
        if following.startswith("-"):
            return
        yield following


def secrets_of_environment(environment: Mapping[str, str]) -> Iterable[str]:
    """The values of variables whose names say that they may be secret, and passwords in addresses."""
    for name, value in environment.items():
        yield from _PASSWORD.findall(value)
        if not is_secret_variable(name):
            continue
        # vLLM takes several keys in one variable.
        parts = (value, *(part for part in value.split(",") if part != value))
        is_sure = _SURE.fullmatch(name) is not None
        yield from (part for part in parts if is_sure or not _WORD.fullmatch(part))


def hide_argv(argv: Sequence[str]) -> list[str]:
    """A command line with its secrets hidden, each argument by itself."""
    shown: list[str] = []
    is_value = is_telling = False
    for word in argv:
        name, equals, value = word.partition("=")
        is_option = name.startswith("-")
        if is_telling and ":" in word:
            shown.append(f"{word.partition(':')[0]}: {HIDDEN}")
        elif is_option and is_secret_name(name):
            shown.append(f"{name}={HIDDEN}" if equals else word)
            is_value = not equals
        elif is_value and not is_option:
            shown.append(HIDDEN)
        elif is_option and equals:
            is_value = False
            shown.append(f"{name}={hide_value(value)}")
        else:
            is_value = False
            shown.append(hide_value(word))
        is_telling = not is_telling and is_option and name in _TELLING and not equals
    return shown


def hide_value(word: str) -> str:
    """One argument: a shell's line word by word, an object of JSON by its names, else by its form."""
    name, equals, _ = word.partition("=")
    if equals and is_secret_variable(name) and " " not in name:
        return f"{name}={HIDDEN}"
    if word.lstrip().startswith(("{", "[")):
        try:
            return json.dumps(hide_named(json.loads(word)))
        except (ValueError, RecursionError):
            return hide_forms(word)
    words = split_line(word) if " " in word else []
    if len(words) > 1:
        hidden = hide_argv(words)
        if hidden != [hide_forms(one) for one in words]:
            return hide_forms(shlex.join(hidden))
    return hide_forms(word)


def hide_named(value: object) -> object:
    """A value of JSON without what stands under the name of a secret."""
    match value:
        case dict():
            return {
                name: HIDDEN if is_secret_name(spaced(str(name))) else hide_named(one)
                for name, one in value.items()
            }
        case list():
            return [hide_named(one) for one in value]
        case str():
            return hide_forms(value)
        case _:
            return value


def spaced(name: str) -> str:
    """A name in camel case with a mark between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def split_line(line: str) -> list[str]:
    """The words of a shell's line; by blanks, where a quote in it does not end."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()

"""Text in, the same text without what must not leave this machine: keys, tokens, passwords, ids. Pure.

Two nets: values that are known to be secret are taken out wherever they stand; forms that secrets and
ids of requests have are taken out whoever's they are.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

HIDDEN: Final = "***"
KNOWN_LEAST: Final = 6
"""Characters of a known secret that is looked for in other text: shorter ones stand in ordinary words."""

_NAME: Final = (
    r"(?:(?:[\w.-]{0,64}[-_.])?(?:api[-_]?keys?|apikey|password|passwd|passphrase|secret(?:[-_]?key)?"
    r"|access[-_]?key(?:[-_]?id)?|private[-_]?key|credentials?|authorization|cookie)"
    r"|(?:[\w.-]{0,64}[-_.])?(?:hf|hub|hugging[-_]?face|auth|access|refresh|bearer|session|github|wandb|api"
    r"|secret)[-_]?token|token)"
)
"""Names of secrets; ``tokens``, ``tokenizer``, ``inter_token`` and ``max_num_batched_tokens`` are none."""
_SECRET_NAME: Final = re.compile(_NAME, re.IGNORECASE)
_SECRET_VARIABLE: Final = re.compile(
    r"(?:.*_)?(?:API)?(?:TOKEN|KEY|KEYS|PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|PAT|AUTH|SECRET|SECRETS"
    r"|CREDENTIALS?|COOKIE|DSN)(?:_.*)?",
    re.IGNORECASE,
)
"""Names of variables that may hold a secret: what is learnt in vain only hides too much."""
_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_WORD: Final = re.compile(r"[a-z]+|[0-9]{1,8}")
"""What is a word of everyday, or a number, is hidden only where its name says that it is secret."""
_QUOTED: Final = re.compile(rf"""(?i)(?<![\w.-]){_NAME}['"]\s{{0,8}}:\s{{0,8}}['"]([^'"]+)['"]""")
_PASSWORD: Final = re.compile(r"://[^:/@\s]*:([^@/\s]+)@")
_FORMS: Final = (
    (re.compile(r"(?i)\b(?:bearer|basic) +[\w.~+/=-]{6,}"), HIDDEN),
    (
        re.compile(r"(?i)(\bauthorization\\*['\"]?\s{0,8}[:=]\s{0,8}\w{1,20}) +[^\s,'\"]+"),
        rf"\1 {HIDDEN}",
    ),
    (re.compile(rf"(?i)(?<!\S)(--?{_NAME}) +(?!-)\S+"), rf"\1 {HIDDEN}"),
    # name: value, name=value, "name": ["value", "value"]
    (
        re.compile(
            rf"""(?ix) ((?<![\w.-]) {_NAME} \\*['"]? \s{{0,8}} [:=] \s{{0,8}})
            (?: \[ [^\]]{{0,4096}} \] | \\*"[^"]{{0,4096}}" | \\*'[^']{{0,4096}}' | [^\s,;&}}\])'"]+ )"""
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(?:hf|ghp|gho|ghs|ghu|glpat|xox[abpr]|sk|pk|rk|nvapi)[_-][\w-]{10,}"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), HIDDEN),
    # What stands between the scheme and the host, and behind the path of an address.
    (re.compile(r"(?<=://)[^/\s@'\"\\]{1,512}@"), f"{HIDDEN}@"),
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
    """The values of options whose names say that they are secret."""
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        yield from _PASSWORD.findall(word)
        if " " in word:
            # A shell's line, or an object of JSON.
            yield from secrets_of_argv(word.split())
        yield from _quoted_secrets(word)
        if equals and not name.startswith("-"):
            yield from secrets_of_environment({name: value})
        if not name.startswith("-") or not is_secret_name(name):
            continue
        if equals:
            yield value
            continue
        for following in argv[at + 1 :]:
            if following.startswith("-"):
                break
            yield following


def _quoted_secrets(text: str) -> Iterable[str]:
    """The values beside secret names in JSON and the like."""
    for found in _QUOTED.finditer(text):
        yield found[1]


def secrets_of_environment(environment: Mapping[str, str]) -> Iterable[str]:
    """The values of variables whose names say that they are secret."""
    for name, value in environment.items():
        yield from _PASSWORD.findall(value)
        is_named = is_secret_name(name)
        if not is_named and (name in _NO_SECRETS or not _SECRET_VARIABLE.fullmatch(name)):
            continue
        # vLLM takes several keys in one variable.
        parts = (value, *(part for part in value.split(",") if part != value))
        yield from (part for part in parts if is_named or not _WORD.fullmatch(part))


def hide_argv(argv: Sequence[str]) -> list[str]:
    """A command line with its secrets hidden, each argument by itself."""
    shown: list[str] = []
    is_value = False
    for word in argv:
        name, equals, _ = word.partition("=")
        is_option = name.startswith("-")
        if is_option and is_secret_name(name):
            shown.append(f"{name}={HIDDEN}" if equals else word)
            is_value = not equals
        elif is_value and not is_option:
            shown.append(HIDDEN)
        else:
            is_value = False
            shown.append(hide_forms(word))
    return shown

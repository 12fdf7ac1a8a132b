"""Whatever a client sends, wherever vLLM prints it, however it is wrapped or cut: no match."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sidecar.catalog.signatures import Scope
from sidecar.log_triage import triage
from sidecar.model.readings import LogEvent, LogReading
from sidecar.parse.log_cuts import Rejoiner, is_continued, looks_headed
from sidecar.parse.log_line import records
from sidecar.parse.log_match import Match, read_line
from sidecar.sources.vllm_log import VllmLogSource
from tests.catalog.test_log_signatures import EXAMPLES
from tests.fakes.clock import FakeClock

EVERYWHERE = frozenset(Scope)
API = "(APIServer pid=9) "
ENGINE = "(EngineCore pid=7) "
STAMP = "2026-01-01T00:00:00.000000000Z"


@dataclass(frozen=True, slots=True)
class Client:
    """What one client sends. ``identity`` is an ``X-Request-Id``, ``model`` a name it asks for."""

    prompt: str
    stop: str
    identity: str
    model: str

    @property
    def url(self) -> str:
        return quote(self.identity, safe="/?=&+")

    @property
    def body(self) -> str:
        return json.dumps({"model": self.model, "prompt": self.prompt, "stop": [self.stop]})


FORMS: dict[str, Callable[[Client], str]] = {
    "0.2 request": lambda c: (
        f"INFO 04-01 18:43:28 async_llm_engine.py:508] Received request {c.identity}: prompt: {c.prompt!r}, sampling_params: SamplingParams(n=1, stop=[{c.stop!r}]), prompt_token_ids: None, lora_request: None."
    ),
    "0.6 request": lambda c: (
        f"INFO 10-01 18:43:28 logger.py:36] Received request {c.identity}: prompt: {c.prompt!r}, params: SamplingParams(n=1, stop=[{c.stop!r}]), prompt_token_ids: [1], lora_request: None."
    ),
    "0.8 request": lambda c: (
        f"INFO 05-01 18:43:28 [logger.py:41] Received request {c.identity}: prompt: {c.prompt!r}, params: SamplingParams(n=1, stop=[{c.stop!r}]), prompt_token_ids: None, lora_request: None."
    ),
    "0.10 request": lambda c: (
        f"{API}INFO 09-01 18:43:28 [logger.py:41] Received request {c.identity}: prompt: {c.prompt!r}, params: SamplingParams(n=1, stop=[{c.stop!r}])"
    ),
    "0.11 request": lambda c: (
        f"{API}INFO 12-01 18:43:28 [logger.py:57] Received request {c.identity}: params: SamplingParams(n=1, stop=[{c.stop!r}]), lora_request: None."
    ),
    "details": lambda c: (
        f"{API}DEBUG 12-01 18:43:28 [entrypoints/utils/request_logger.py:55] Request {c.identity} details: prompt: {c.prompt!r}, prompt_token_ids: [1], prompt_embeds shape: None."
    ),
    "body": lambda c: (
        f"{API}INFO 12-01 18:43:28 [request_logger.py:31] Request {c.identity} JSON body: {c.body}"
    ),
    "body of the Rust front end": lambda c: (
        f"(RustFrontend pid=1) DEBUG 11-29 21:53:23 [routes.rs:73] request body={c.body}"
    ),
    "response": lambda c: (
        f"{API}INFO 12-01 18:43:28 [request_logger.py:83] Generated response {c.identity} (streaming delta): output: {c.prompt!r}, output_token_ids: None, finish_reason: stop"
    ),
    "added": lambda c: (
        f"{API}INFO 12-01 18:43:28 [async_llm.py:382] Added request {c.identity}-0-a46e5eed."
    ),
    "finished": lambda c: (
        f"INFO 04-01 18:43:28 async_llm_engine.py:120] Finished request {c.identity}."
    ),
    "aborted": lambda c: (
        f"INFO 04-01 18:43:28 [async_llm_engine.py:135] Aborted request {c.identity}."
    ),
    "access": lambda c: f'{API}INFO:     10.0.0.1:41 - "POST /{c.url} HTTP/1.1" 404 Not Found',
    "access by IPv6": lambda c: f'INFO:     [fe80::1]:41 - "GET /v1/{c.url} HTTP/1.1" 200 OK',
    "validation": lambda c: (
        f"{API}ERROR 12-01 18:43:28 [validation.py:151]   {{'type': 'literal_error', 'loc': ('body', 'x'), 'input': {c.prompt!r}}}"
    ),
    "validation, a line of its own": lambda c: (
        f"{API}ERROR 12-01 18:43:28 [validation.py:151] {c.identity}"
    ),
    "protocol": lambda c: (
        f"{API}WARNING 12-01 18:43:28 [protocol.py:82] The following fields were present: {{{c.identity}}}"
    ),
    "dumped configuration": lambda c: (
        f"{ENGINE}ERROR 11-29 22:32:53 [dump_input.py:72] Dumping input data for V1 LLM engine (v0.32.0) with config: model={c.model!r}, served_model_name={c.model},"
    ),
    "dumped requests": lambda c: (
        f"{ENGINE}ERROR 11-29 22:32:53 [dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id={c.identity},sampling_params=SamplingParams(stop=[{c.stop!r}]))])"
    ),
    "arguments": lambda c: (
        f"{API}INFO 11-29 20:51:09 [api_utils.py:286] non-default args: {{'served_model_name': [{c.model!r}]}}"
    ),
    "arguments before 0.9": lambda c: (
        f"INFO 11-29 20:51:09 [api_server.py:1044] args: Namespace(model={c.model!r})"
    ),
    "JSON formatter": lambda c: json.dumps(
        {
            "levelname": "INFO",
            "name": "vllm.entrypoints.logger",
            "message": f"Received request {c.identity}: prompt: {c.prompt}, params: None",
        }
    ),
}


OWN = {"arguments": "arguments_told", "arguments before 0.9": "namespace_told"}
"""Lines that are the server's own, though they quote: that they are there is told, and no more."""


def believed(form: str, found: Sequence[Match | LogEvent]) -> list[Match | LogEvent]:
    """What is taken for true of a line beyond what it is."""
    names = [one.signature.id if isinstance(one, Match) else one.signature for one in found]
    return [
        one
        for name, one in zip(names, found, strict=True)
        if name != OWN.get(form) or one.numbers or one.amount != 1
    ]


def as_cri(line: str, parts: Sequence[str]) -> list[str]:
    return [f"{STAMP} stdout P {part}" for part in parts[:-1]] + [f"{STAMP} stdout F {parts[-1]}"]


def as_docker(line: str, parts: Sequence[str]) -> list[str]:
    texts = ["INFO:     Waiting for application startup.\n", *parts[:-1], parts[-1] + "\n"]
    return [
        json.dumps({"log": text, "stream": "stdout", "time": STAMP}, separators=(",", ":"))
        for text in texts
    ]


def as_journal(line: str, parts: Sequence[str]) -> list[str]:
    return [f"Jan 01 00:00:00 node1 vllm[7]: {line}"]


def as_journal_json(line: str, parts: Sequence[str]) -> list[str]:
    return [json.dumps({"MESSAGE": line, "_SYSTEMD_UNIT": "vllm.service"})]


def as_plain(line: str, parts: Sequence[str]) -> list[str]:
    return [line]


def as_compose(line: str, parts: Sequence[str]) -> list[str]:
    return [f"vllm-1  | {line}"]


def as_cloud(line: str, parts: Sequence[str]) -> list[str]:
    return [json.dumps({"severity": "ERROR", "textPayload": line})]


def as_json_in_cri(line: str, parts: Sequence[str]) -> list[str]:
    return [f"{STAMP} stdout F {json.dumps({'log': line})}"]


def as_field(line: str, parts: Sequence[str]) -> list[str]:
    return [f'    "message": {json.dumps(line)},']


def as_description(line: str, parts: Sequence[str]) -> list[str]:
    return [f"      Message:      {line}"]


def as_pairs(line: str, parts: Sequence[str]) -> list[str]:
    return [f"ts={STAMP} level=error msg={json.dumps(line)} pod=vllm-0"]


def as_export(line: str, parts: Sequence[str]) -> list[str]:
    return [json.dumps({"data": {"result": [{"values": [["1761269217000000000", line]]}]}})]


WRAPPINGS = (
    *(as_plain, as_cri, as_docker, as_journal, as_journal_json, as_compose, as_cloud),
    *(as_json_in_cri, as_field, as_description, as_pairs, as_export),
)


def _texts() -> list[str]:
    found: list[str] = []
    for line, _ in EXAMPLES.values():
        found += [line, *(record.message for record in records(line))]
    return list(dict.fromkeys(text for text in found if text))


QUOTED = _texts()
around = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12),
    st.sampled_from(
        (
            "4.00it/s]",
            "100%| ",
            "' \"",
            "\\",
            "{'error': {'message': '",
            '{"log":"',
            "', params: None",
        )
    ),
)
written = st.builds("{}{}{}".format, around, st.sampled_from(QUOTED), around)
clients = st.builds(
    Client,
    prompt=st.one_of(written, st.builds("{}\n{}".format, around, st.sampled_from(QUOTED))),
    stop=st.sampled_from(QUOTED),
    identity=st.one_of(
        st.sampled_from(QUOTED), st.builds("cmpl-{}".format, st.sampled_from(QUOTED))
    ),
    model=st.sampled_from(QUOTED),
)
cuts = st.lists(st.integers(0, 1500), max_size=4)


def cut(line: str, places: Sequence[int]) -> list[str]:
    """The line in parts, none of them empty."""
    at = sorted({place % len(line) for place in places} - {0})
    return [line[begin:end] for begin, end in zip([0, *at], [*at, len(line)], strict=True)]


def joined(data: bytes) -> list[bytes]:
    return Rejoiner().feed(data).split(b"\n")[:-1]


@given(clients, st.sampled_from(sorted(FORMS)), st.sampled_from(WRAPPINGS), cuts)
@settings(max_examples=400)
def test_no_line_and_no_log_is_believed(
    client: Client,
    form: str,
    wrap: Callable[[str, Sequence[str]], list[str]],
    places: Sequence[int],
) -> None:
    line = FORMS[form](client)
    data = "".join(text + "\n" for text in wrap(line, cut(line, places))).encode()
    for text in joined(data):
        assert believed(form, read_line(text, EVERYWHERE)) == []
    raw = data.split(b"\n")[:-1]
    own = [text for at, text in enumerate(raw) if not is_continued(raw, at)]
    assert [said for text in own for said in believed(form, read_line(text, EVERYWHERE))] == []
    assert triage([data]).causes == ()
    assert triage(data[at : at + 64] for at in range(0, len(data), 64)).causes == ()


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


@given(clients, st.sampled_from(sorted(FORMS)), st.sampled_from(WRAPPINGS), cuts)
@settings(max_examples=100)
async def test_no_line_is_believed_as_it_is_written(
    client: Client,
    form: str,
    wrap: Callable[[str, Sequence[str]], list[str]],
    places: Sequence[int],
) -> None:
    line = FORMS[form](client)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        append(log, "")
        source = VllmLogSource(FakeClock(), [log])
        await source.open()
        for text in wrap(line, cut(line, places)):
            append(log, text + "\n")
            reading = (await source.sample()).reading
            assert isinstance(reading, LogReading)
            assert believed(form, reading.events) == []
        await source.close()


REQUESTS = ("0.2 request", "0.6 request", "0.8 request", "0.10 request")


@given(clients, st.sampled_from(REQUESTS), st.integers(70, 240))
@settings(max_examples=300)
def test_no_request_that_a_terminal_wrapped_is_believed(
    client: Client, form: str, width: int
) -> None:
    line = FORMS[form](client)
    rows = [line[at : at + width] for at in range(0, len(line), width)]
    # A row that begins just as a record does is one, as far as anybody can tell.
    assume(not any(looks_headed(row.encode()) for row in rows[1:]))
    assume(line.index(": prompt: ") < width)
    assert triage(["\n".join(rows).encode()]).causes == ()


@given(st.sampled_from(QUOTED), st.integers(48 * 1024, 60 * 1024))
@settings(max_examples=50)
def test_no_request_that_journald_cut_is_believed(quoted: str, length: int) -> None:
    head = "Jan 01 00:00:00 node1 vllm[7]: "
    request = "INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: '"
    first = head + request + "a" * (length - len(head) - len(request))
    data = f"{first}\n{head}{quoted}', params: SamplingParams(n=1)\n".encode()
    assert triage([data]).causes == ()

"""Basic authentication: who is right is let in, who is wrong learns nothing and costs little."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from sidecar.export import basic_auth
from sidecar.export.basic_auth import (
    MAX_REMEMBERED,
    MAX_WAITING,
    Admission,
    Checker,
    Credentials,
    Users,
    read_credentials,
)
from tests.export.serving import Served, hashed, serving
from tests.fakes.clock import settle
from tests.fakes.patience import until

ALICE, BOB = "sesame", "pässword:with colon"
PAGES = ("/", "/metrics", "/healthz", "/readyz", "/api/report", "/api/windows", "/nothing")


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class CountingChecker(Checker):
    """Counts what is checked, and against which hash."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: list[bytes] = []

    async def fits(self, password: bytes, hashed: bytes) -> bool | None:
        self.checked.append(hashed)
        return await super().fits(password, hashed)


HASHES = {name: hashed(f"word of {name.decode()}").encode() for name in (b"a", b"b", b"c")}


@pytest.fixture
async def checker() -> AsyncIterator[CountingChecker]:
    one = CountingChecker()
    yield one
    one.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users:\n  alice: {hashed(ALICE)}\n  bob: {hashed(BOB)}\n")
    async with serving(path) as one:
        yield one


async def ask(
    served: Served, path: str = "/healthz", method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    url = f"http://127.0.0.1:{served.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers) as answer,
    ):
        return answer.status, dict(answer.headers), await answer.text()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Basic YTpi", Credentials(b"a", b"b")),
        ("basic YTpi", Credentials(b"a", b"b")),
        ("BASIC  YTpi ", Credentials(b"a", b"b")),
        ("Basic Og==", Credentials(b"", b"")),
        ("Basic YTpiOmM=", Credentials(b"a", b"b:c")),
        ("Basic YTr/AA==", Credentials(b"a", b"\xff\0")),
        ("Basic YQ==", None),
        ("Basic YTpi!", None),
        ("Basic é", None),
        ("Basic YTp", None),
        ("Basic", None),
        ("", None),
        ("Bearer YTpi", None),
        ("YTpi", None),
    ],
)
def test_credentials_are_read_strictly(given: str, meant: Credentials | None) -> None:
    assert read_credentials([given]) == meant
    assert read_credentials([given, given]) is None


def test_credentials_are_not_shown() -> None:
    assert "pass" not in repr(Credentials(b"user", b"pass"))


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_needs_a_user(served: Served, path: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        status, headers, text = await ask(served, path, method)
        assert status == 401
        assert headers["WWW-Authenticate"] == 'Basic realm="vllm-sidecar", charset="UTF-8"'
        assert text in {"a user name and its password are needed\n", ""}


async def test_users_are_let_in_by_their_own_passwords(served: Served) -> None:
    for user, password, status in (
        ("alice", ALICE, 200),
        ("bob", BOB, 200),
        ("alice", BOB, 401),
        ("bob", ALICE, 401),
        ("Alice", ALICE, 401),
        ("carol", ALICE, 401),
        ("alice", "", 401),
        ("", "", 401),
        ("alice", f"{ALICE} ", 401),
    ):
        for _ in range(2):
            answer = await ask(served, Authorization=basic(user, password))
            assert answer[0] == status, user


async def test_nothing_of_what_was_sent_is_said_back_or_out(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = await ask(served, Authorization=basic("mallory", "sk-canary"))
    sent = ("mallory", "sk-canary", basic("mallory", "sk-canary")[6:], "alice", "$2b$")
    assert not [word for word in sent if word in str(answer)]
    assert (capfd.readouterr(), served.complaints) == (("", ""), [])


async def test_what_is_beyond_bcrypts_reach_of_a_password_is_cut_off(
    checker: CountingChecker,
) -> None:
    users = Users({b"a": hashed("x" * 72).encode()}, checker)
    for sent, admission in (
        ("x" * 72, Admission.ALLOWED),
        ("x" * 100, Admission.ALLOWED),
        ("x" * 71, Admission.REFUSED),
        ("x" * 71 + "\0", Admission.REFUSED),
    ):
        assert await users.admit([basic("a", sent)]) is admission


async def test_who_was_right_is_not_checked_again(checker: CountingChecker) -> None:
    users = Users(HASHES, checker)
    for _ in range(3):
        assert await users.admit([basic("a", "word of a")]) is Admission.ALLOWED
    assert checker.checked == [HASHES[b"a"]]
    assert await users.admit([basic("a", "word of b")]) is Admission.REFUSED
    assert await users.admit([basic("aw", "ord of a")]) is Admission.REFUSED
    assert len(checker.checked) == 3


async def test_who_was_wrong_is_checked_again(checker: CountingChecker) -> None:
    users = Users(HASHES, checker)
    for _ in range(3):
        assert await users.admit([basic("a", "guess")]) is Admission.REFUSED
    assert checker.checked == [HASHES[b"a"]] * 3


async def test_an_unknown_name_costs_what_some_user_costs_and_always_the_same(
    checker: CountingChecker,
) -> None:
    users = Users(HASHES, checker)
    costs = set()
    for number in range(30):
        checker.checked.clear()
        for _ in range(2):
            given = [basic(f"nobody {number}", "word of a")]
            assert await users.admit(given) is Admission.REFUSED
        assert len(checker.checked) == 2
        costs.update(checker.checked)
        assert len(set(checker.checked)) == 1
    assert costs == set(HASHES.values())


async def test_the_right_password_of_a_decoy_lets_nobody_in(checker: CountingChecker) -> None:
    users = Users({b"a": HASHES[b"a"]}, checker)
    assert await users.admit([basic("nobody", "word of a")]) is Admission.REFUSED
    assert checker.checked == [HASHES[b"a"]]


async def test_no_more_is_remembered_than_is_of_use(checker: CountingChecker) -> None:
    users = Users({b"a": hashed("x" * 72).encode()}, checker)
    sent = [basic("a", "x" * 72 + str(number)) for number in range(MAX_REMEMBERED + 1)]
    for one in sent[:-1]:
        await users.admit([one])
    await users.admit([sent[0]])
    await users.admit([sent[-1]])
    checker.checked.clear()
    await users.admit([sent[0]])
    assert checker.checked == []
    await users.admit([sent[1]])
    assert len(checker.checked) == 1
    assert len(users.remembered) == MAX_REMEMBERED


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], None]]:
    """Every password waits to be found wrong, until this is called."""
    loop, gate = asyncio.get_running_loop(), asyncio.Event()

    def wait(_password: bytes, _hashed: bytes) -> bool:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        return False

    monkeypatch.setattr(basic_auth, "matches", wait)
    yield gate.set
    gate.set()


async def test_few_wait_to_be_checked_and_one_more_is_told_to_come_back(
    served: Served, held: Callable[[], None]
) -> None:
    guess = basic("alice", "guess")
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(ask(served, Authorization=guess)) for _ in range(MAX_WAITING)]
        await until(lambda: served.web_file.checker.waiting == MAX_WAITING)
        status, headers, text = await ask(served, Authorization=guess)
        assert (status, headers["Retry-After"]) == (503, "1")
        assert text == "too many passwords to check\n"
        assert (await ask(served))[0] == 401
        held()
    assert {task.result()[0] for task in waiting} == {401}


async def test_who_is_remembered_is_let_in_while_others_are_checked(
    served: Served, held: Callable[[], None]
) -> None:
    alice = basic("alice", ALICE)
    users = served.web_file.face.users
    assert users is not None
    users.remember(users.digest(b"alice", ALICE.encode()))
    async with asyncio.TaskGroup() as group:
        guess = basic("alice", "guess")
        for _ in range(MAX_WAITING):
            group.create_task(ask(served, Authorization=guess))
        await until(lambda: served.web_file.checker.waiting == MAX_WAITING)
        for path in PAGES[:-1]:
            assert (await ask(served, path, Authorization=alice))[0] == 200
        held()


async def test_one_password_is_checked_at_a_time(
    checker: CountingChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0
    loop = asyncio.get_running_loop()

    def count(_password: bytes, _hashed: bytes) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # All others get so far that they could begin.
        asyncio.run_coroutine_threadsafe(settle(), loop).result(20)
        running -= 1
        return False

    monkeypatch.setattr(basic_auth, "matches", count)
    one, other = Users(HASHES, checker), Users(HASHES, checker)
    await asyncio.gather(*(users.admit([basic("a", "x")]) for users in (one, other) * 4))
    assert most == 1
    assert len(checker.checked) == MAX_WAITING


async def test_a_check_that_hangs_is_not_waited_for(
    checker: CountingChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, loop = asyncio.Event(), asyncio.get_running_loop()

    def hang(_password: bytes, _hashed: bytes) -> bool:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        return True

    monkeypatch.setattr(basic_auth, "matches", hang)
    monkeypatch.setattr(basic_auth, "CHECK_LIMIT_S", 0.02)
    users = Users(HASHES, checker)
    for _ in range(2):
        assert await users.admit([basic("a", "word of a")]) is Admission.BUSY
    gate.set()
    await until(lambda: not checker.thread.busy)
    assert await users.admit([basic("a", "word of a")]) is Admission.ALLOWED

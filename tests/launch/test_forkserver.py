"""The fork server itself: what it is when it is idle, and what happens when it cannot be."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from launch_runner import SCRIPTS

from scalewise.errors import BadRequest
from scalewise.launch.forkserver import ForkServer, ServerDied, Servers, server_key, user_environment
from scalewise.records.orders import ExecOrder

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A server with torch that nothing but these tests has asked for anything."""
    with Servers() as servers:
        yield servers.get("", str(SCRIPTS), {**os.environ, "OMP_NUM_THREADS": "1"}, preload=True)


def test_the_idle_server_is_single_threaded_and_knows_its_versions(server: ForkServer) -> None:
    assert server.versions["torch"].startswith("2.")
    assert psutil.Process(server.pid).num_threads() == 1


def test_the_store_of_the_ranks_listens_on_this_machine_only(server: ForkServer) -> None:
    port = server.host_store()
    agent = psutil.Process(server.pid).children()[0]
    listening = [one.laddr for one in agent.net_connections() if one.status == psutil.CONN_LISTEN]
    assert [(address.ip, address.port) for address in listening] == [("127.0.0.1", port)]
    server.clean()
    assert psutil.Process(server.pid).children() == []


def test_runs_share_a_server_unless_something_read_at_start_differs() -> None:
    with Servers() as servers:
        first = servers.get("", "/", {**os.environ, "A": "1"}, preload=False)
        assert servers.get("", "/", {**os.environ, "A": "2"}, preload=False) is first
    environment = {"OMP_NUM_THREADS": "1", "A": "1"}
    key = server_key("", "/", environment, preload=True)
    assert server_key("", "/", environment | {"A": "2"}, preload=True) == key
    assert server_key("", "/", environment | {"OMP_NUM_THREADS": "2"}, preload=True) != key
    assert server_key("", "/tmp", environment, preload=True) != key


def test_only_the_latest_servers_are_kept(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    with Servers() as servers:
        started = []
        for folder in folders:
            folder.mkdir()
            started.append(servers.get("", str(folder), os.environ, preload=False))
        assert [server.alive for server in started] == [False, False, True, True, True]
    assert not any(server.alive for server in started)


def test_torch_missing_is_a_sentence_that_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    with Servers() as servers, pytest.raises(BadRequest, match="no torch here") as caught:
        servers.get("", "/", {**os.environ, "PYTHONPATH": str(tmp_path)}, preload=True)
    assert "pip install" in caught.value.hint


def test_an_interpreter_that_is_not_there_is_a_sentence() -> None:
    with Servers() as servers, pytest.raises(BadRequest, match="/no/such/python"):
        servers.get("/no/such/python", "/", os.environ, preload=False)


def test_an_interpreter_that_is_no_python_is_noticed() -> None:
    with Servers() as servers, pytest.raises(ServerDied):
        servers.get("/bin/false", "/", os.environ, preload=False)


def test_a_program_that_cannot_be_executed_ends_with_127_and_says_why(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with Servers() as servers:
        server = servers.get(sys.executable, "/", os.environ, preload=False)
        server.order(ExecOrder("it", ("/no/such/program",), "/", str(said), str(said), {}))
        assert server.wait_for("ended", 10.0)["code"] == 127
    assert "No such file" in said.read_text()


def test_what_an_outer_run_left_in_the_environment_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALEWISE_SPEC", "/old")
    assert "SCALEWISE_SPEC" not in user_environment()

"""Two and four "hosts" of one machine, joined by known wires: a training on them against its prediction.

Each host is a network namespace with an interface of its own; scalewise is started by hand on each. Rates alone are
made by the kernel (tc tbf, both ways), latency and loss by a process that hands packets on later, since not every
kernel has netem. All hosts share the cores, so a script is used whose messages take most of the step. It is predicted
twice: over the wire by its figures, and over the times of all-reduces among the same hosts. A prediction is of hosts
with a core for each rank; four hosts here have half a core. Needs `ip`, `tc`, user namespaces and /dev/net/tun;
nothing of the machine is changed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.host_links import PlacedReduces, link_text
from scalewise.jobs.machine_probes import collectives_of
from scalewise.jobs.reporter import SILENT
from scalewise.plan.experiment import subject_folder
from scalewise.records.load import load

WIRES = (  # Mbit/s, ms one way, per cent lost
    (400, 0.0, 0.0),
    (1600, 0.0, 0.0),
    (400, 5.0, 0.0),
    (400, 5.0, 0.5),
)
STEPS = 30
WIDTH = 1024  # 16.8 MB of gradients
ROWS = 4  # of a batch: computing takes some milliseconds
SIZES = tuple(4 * 4**power for power in range(1, 13))
ROUNDS = 3
START_US = 60.0  # of a message through two veth pairs and a bridge, measured by a ping
NEEDED = ("ip", "tc", "unshare", "nsenter")
# The hosts' namespaces live as long as the sleeping processes in them; the bridge is in the namespace around them.
SCRIPT = """
set -e
ip link set lo up
for k in $(seq 0 $(({hosts} - 1))); do
    unshare -n sleep 3600 & pid[$k]=$!
done
trap 'kill $link ${{pid[*]}} 2> /dev/null' EXIT
sleep 0.5
{wires}
for k in $(seq $(({hosts} - 1)) -1 0); do
    words=({command} --node-rank $k)
    if [ $k = 0 ]; then
        nsenter -t ${{pid[0]}} -n "${{words[@]}}" -- {args} > measured.json 2> host0.log || true
    else
        nsenter -t ${{pid[$k]}} -n "${{words[@]}}" -- {args} > /dev/null 2> host$k.log &
    fi
done
"""
RATES = """
ip link add br0 type bridge && ip link set br0 up
for k in $(seq 0 $(({hosts} - 1))); do
    ip link add p$k type veth peer name eth0 netns ${{pid[$k]}}
    ip link set p$k master br0 up
    tc qdisc add dev p$k root tbf rate {mbit}mbit burst 128kb latency 200ms
    in="nsenter -t ${{pid[$k]}} -n"
    $in ip link set lo up; $in ip addr add 10.77.0.$((k + 1))/24 dev eth0; $in ip link set eth0 up
    $in tc qdisc add dev eth0 root tbf rate {mbit}mbit burst 128kb latency 200ms
done
"""
DELAYS = """
rm -f ready
{python} {link} {latency_ms} {mbit} {loss} ${{pid[*]}} > ready & link=$!
until grep -qs ready ready; do sleep 0.1; done
for k in $(seq 0 $(({hosts} - 1))); do
    in="nsenter -t ${{pid[$k]}} -n"
    $in ip link set lo up; $in ip addr add 10.77.0.$((k + 1))/24 dev wire$k; $in ip link set wire$k mtu 65000 up
done
"""


@dataclass(frozen=True)
class ShapedWire:
    """What joins the hosts."""

    mbit: int
    latency_ms: float = 0.0
    loss_percent: float = 0.0

    @property
    def text(self) -> str:
        """The figures, as they stand in the table."""
        return f"{self.mbit} Mbit/s {self.latency_ms:g} ms {self.loss_percent:g} %"

    def script(self, hosts: int) -> str:
        """The lines of the shell that join the hosts."""
        if not self.latency_ms and not self.loss_percent:
            return RATES.format(hosts=hosts, mbit=self.mbit)
        return DELAYS.format(
            python=sys.executable, link=Path(__file__).parent / "scripts" / "delayed_link.py", hosts=hosts,
            latency_ms=self.latency_ms, mbit=self.mbit, loss=self.loss_percent,
        )  # fmt: skip

    def link_file(self) -> str:
        """The wire as a user would describe it."""
        hop_us = START_US + 1e3 * self.latency_ms
        wire = f"start_us = {START_US}\nhop_us = {hop_us}\ngigabytes_per_second = {self.mbit / 8e3}\n"
        return f'name = "shaped"\nsource = "tc tbf"\n[inside]\n{wire}'


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints the table and gives the figures back."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise BadRequest(f"Hosts on one machine need {', '.join(missing)}.", "Debian: apt-get install iproute2.")
    rows = []
    print("\nHosts as network namespaces; a step of DDP with 16.8 MB of gradients, in ms (predicted: 90 %)")
    print(f"{'hosts':<7}{'wire':<22}{'measured':>9}  {'over its figures':<32}{'over measured all-reduces':<32}load")
    for hosts in (2,) if quick else (2, 4):
        for figures in WIRES[:1] if quick else WIRES:
            rows += [_row(hosts, ShapedWire(*figures)) for _ in range(1 if quick else ROUNDS)]
    return {"rows": rows}


def _row(hosts: int, wire: ShapedWire) -> dict[str, object]:
    """Measures and predicts one after the other, since the load of a shared machine changes."""
    with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as name:
        folder = Path(name)
        (folder / "named.toml").write_text(wire.link_file())
        named = _predicted(folder, hosts, "named.toml")
        measured = _measured(folder, hosts, wire)
        (folder / "reduces.toml").write_text(_all_reduces(folder, hosts, wire))
        reduced = _predicted(folder, hosts, "reduces.toml")
    busy = os.getloadavg()[0]
    told = [
        f"{1e3 * value:.0f} [{1e3 * low:.0f}, {1e3 * high:.0f}] {'inside' if low <= measured <= high else 'outside'}"
        for value, low, high in (named, reduced)
    ]
    print(f"{hosts:<7}{wire.text:<22}{1e3 * measured:>9.0f}  {told[0]:<32}{told[1]:<32}{busy:.1f}", flush=True)
    return {"hosts": hosts, "wire": wire.text, "measured": measured, "named": named, "reduces": reduced, "load": busy}


def _measured(folder: Path, hosts: int, wire: ShapedWire) -> float:
    """The median step on these hosts."""
    said = _on_hosts(folder, hosts, wire, _script(), " ".join(_arguments()))
    try:
        (experiment,) = json.loads(said)["experiments"]
        return float(experiment["rows"][0]["step_seconds"]["value"])
    except (ValueError, KeyError, TypeError):
        logs = "".join(path.read_text()[-800:] for path in sorted(folder.glob("host*.log")))
        raise BadRequest(f"The hosts made no measurement: {logs}", "") from None


def _all_reduces(folder: Path, hosts: int, wire: ShapedWire) -> str:
    """A link file from all-reduces among these hosts."""
    words = f"--hot --sizes {','.join(map(str, SIZES))} --repeats 8"
    _on_hosts(folder, hosts, wire, subject_folder() / "allreduce.py", words)
    (run,) = [one for suite in folder.glob("runs/allreduce-*") for one in load(suite).runs]
    return link_text([], [PlacedReduces(hosts, hosts, tuple(collectives_of(run)))], [], "shaped hosts", SILENT)


def _on_hosts(folder: Path, hosts: int, wire: ShapedWire, script: Path, args: str) -> str:
    """What `scalewise run` of this script says on host 0."""
    command = f"{sys.executable} -m scalewise run {script} --ranks {hosts} --nodes {hosts} --launcher torchrun "
    command += f"--master 10.77.0.1:29500 --device cpu --out {folder}/runs --json"
    text = SCRIPT.format(hosts=hosts, wires=wire.script(hosts), command=command, args=args)
    subprocess.run(["unshare", "-Urn", "bash", "-c", text], cwd=folder, capture_output=True, check=False)
    said = folder / "measured.json"
    return said.read_text() if said.exists() else ""


def _predicted(folder: Path, hosts: int, link: str) -> tuple[float, float, float]:
    """The step that a rehearsal foresees over that link, and its interval."""
    words = ["rehearse", str(_script()), "--ranks", str(hosts), "--link-file", link, "--no-advice"]
    command = [sys.executable, "-m", "scalewise", *words, "--device", "cpu", "--json", "--", *_arguments()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    try:
        (found,) = json.loads(done.stdout)["at"]
        step = found["predicted"]
        return float(step["value"]), float(step["low"]), float(step["high"])
    except (ValueError, KeyError, TypeError):
        raise BadRequest(f"The rehearsal predicted nothing: {done.stderr[-500:]} {done.stdout[:500]}", "") from None


def _script() -> Path:
    return Path(__file__).parent / "scripts" / "two_hosts.py"


def _arguments() -> list[str]:
    return [str(STEPS), str(WIDTH), str(ROWS)]

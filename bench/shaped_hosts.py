"""Two and four "hosts" of one machine, joined by a wire of known rate: a training on them against its prediction.

Each host is a network namespace with an interface of its own, shaped to a rate (tc tbf) both ways; scalewise is started
by hand on each. Latency and loss are what they are: not every kernel has netem. All hosts share the cores, so a script
is used whose messages take most of the step. Needs `ip`, `tc` and user namespaces; nothing of the machine is changed.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scalewise.errors import BadRequest

RATES_MBIT = (400, 1600)
STEPS = 30
WIDTH = 1024  # 16.8 MB of gradients
START_US = 60.0  # of a message through two veth pairs and a bridge, measured by a ping
NEEDED = ("ip", "tc", "unshare", "nsenter")
# The hosts' namespaces live as long as the sleeping processes in them; the bridge is in the namespace around them.
SCRIPT = """
set -e
ip link set lo up
ip link add br0 type bridge && ip link set br0 up
for k in $(seq 0 $(({hosts} - 1))); do
    unshare -n sleep 3600 & pid[$k]=$!
done
trap 'kill ${{pid[*]}} 2> /dev/null' EXIT
sleep 0.5
for k in $(seq 0 $(({hosts} - 1))); do
    ip link add p$k type veth peer name eth0 netns ${{pid[$k]}}
    ip link set p$k master br0 up
    tc qdisc add dev p$k root tbf rate {mbit}mbit burst 128kb latency 200ms
    in="nsenter -t ${{pid[$k]}} -n"
    $in ip link set lo up; $in ip addr add 10.77.0.$((k + 1))/24 dev eth0; $in ip link set eth0 up
    $in tc qdisc add dev eth0 root tbf rate {mbit}mbit burst 128kb latency 200ms
done
for k in $(seq $(({hosts} - 1)) -1 0); do
    words=({command} --node-rank $k)
    if [ $k = 0 ]; then
        nsenter -t ${{pid[0]}} -n "${{words[@]}}" -- {args} > measured.json 2> host0.log || true
    else
        nsenter -t ${{pid[$k]}} -n "${{words[@]}}" -- {args} > /dev/null 2> host$k.log &
    fi
done
"""


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints the table and gives the figures back."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise BadRequest(f"Hosts on one machine need {', '.join(missing)}.", "Debian: apt-get install iproute2.")
    rows = []
    print("\nTwo and four hosts as network namespaces, shaped by tbf; a step of DDP with 16.8 MB of gradients")
    print(f"{'hosts':<7}{'rate':<14}{'measured':>12}{'predicted':>12}   measured is")
    for hosts in (2,) if quick else (2, 4):
        for mbit in RATES_MBIT[:1] if quick else RATES_MBIT:
            with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
                measured = _measured(Path(folder), hosts, mbit)
                predicted, low, high = _predicted(Path(folder), hosts, mbit)
            where = "inside" if low <= measured <= high else "outside"
            rows.append(
                {"hosts": hosts, "mbit": mbit, "measured": measured, "predicted": predicted, "interval": [low, high]}
            )
            said = f"{where} {1e3 * low:.0f} to {1e3 * high:.0f} ms"
            print(f"{hosts:<7}{mbit:>5} Mbit/s  {1e3 * measured:>9.1f} ms{1e3 * predicted:>9.1f} ms   {said}")
    return {"rows": rows}


def _measured(folder: Path, hosts: int, mbit: int) -> float:
    """The median step on these hosts."""
    command = f"{sys.executable} -m scalewise run {_script()} --ranks {hosts} --nodes {hosts} --launcher torchrun "
    command += f"--master 10.77.0.1:29500 --device cpu --out {folder}/runs --json"
    text = SCRIPT.format(hosts=hosts, mbit=mbit, command=command, args=f"{STEPS} {WIDTH}")
    done = subprocess.run(
        ["unshare", "-Urn", "bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False
    )
    try:
        (experiment,) = json.loads((folder / "measured.json").read_text())["experiments"]
        return float(experiment["rows"][0]["step_seconds"]["value"])
    except (OSError, ValueError, KeyError, TypeError):
        logs = "".join(path.read_text()[-800:] for path in sorted(folder.glob("host*.log")))
        raise BadRequest(f"The hosts made no measurement: {done.stderr[-300:]} {logs}", "") from None


def _predicted(folder: Path, hosts: int, mbit: int) -> tuple[float, float, float]:
    """The step that a rehearsal foresees over that wire, and its interval."""
    wire = f"start_us = {START_US}\nhop_us = {START_US}\ngigabytes_per_second = {mbit / 8e3}\n"
    (folder / "link.toml").write_text(f'name = "shaped"\nsource = "tc tbf"\n[inside]\n{wire}')
    words = ["rehearse", str(_script()), "--ranks", str(hosts), "--link-file", "link.toml", "--no-check", "--no-advice"]
    command = [sys.executable, "-m", "scalewise", *words, "--device", "cpu", "--json", "--", str(STEPS), str(WIDTH)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    try:
        (found,) = json.loads(done.stdout)["at"]
        step = found["predicted"]
        return float(step["value"]), float(step["low"]), float(step["high"])
    except (ValueError, KeyError, TypeError):
        raise BadRequest(f"The rehearsal predicted nothing: {done.stderr[-500:]} {done.stdout[:500]}", "") from None


def _script() -> Path:
    return Path(__file__).parent / "scripts" / "two_hosts.py"

"""Ranks in network namespaces with a rate limit between them: a real, slow link, foreseen from its rate alone.

Namespaces of our own hold the wires, so nothing of the machine's network changes, and all is gone when the run ends.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.rehearse_points import CONVOLUTION, LINEAR, TRANSFORMER
from bench.rehearse_runs import Checked, Place, Seen, foreseen, step_seconds, together, with_messages_carried
from scalewise.predict.link import Link, Wire
from scalewise.predict.timeline import APART
from scalewise.records.load import Run, load

GOAL = 0.08
TOOLS = ("unshare", "nsenter", "ip", "tc", "taskset", "mount")
PAYLOAD = 1448 / 1514  # of a full Ethernet frame that TCP fills, time stamps on
MBIT_RATES = (1000, 300)
PORT = 29517
SECONDS = 120
CASES: tuple[tuple[str, Path, tuple[str, ...]], ...] = (
    ("linear 1024x2 b256", LINEAR, ("--batch", "256", "--steps", "25")),
    ("linear 1024x8 b512", LINEAR, ("--depth", "8", "--batch", "512", "--steps", "14")),
    ("transformer b16 bucket-mb=2", TRANSFORMER, ("--batch", "16", "--bucket-mb", "2", "--steps", "20")),
    ("convolution b32", CONVOLUTION, ("--batch", "32", "--steps", "20")),
)
# A smaller bucket than 128 KiB holds two whole packets of the sender no more, and halves the rate of a fast link.
WIRES = """
set -e
mount -t tmpfs none /run
ip netns add n0; ip netns add n1
ip link add eth0 netns n0 type veth peer name eth0 netns n1
for n in 0 1; do
  ip -n n$n link set lo up; ip -n n$n addr add 10.77.0.$((n + 1))/24 dev eth0; ip -n n$n link set eth0 up
  nsenter --net=/run/netns/n$n tc qdisc add dev eth0 root tbf rate ${RATE}mbit burst 128kb latency 400ms
done
"""


class NotHere(Exception):
    """Why this machine cannot do it."""


def table(place: Place, quick: bool) -> object:
    """Prints it."""
    from bench.rehearse import MESSAGE_RUNS, show, summary

    prefix = _allowed()
    print("\nShaped links: two ranks in namespaces of their own, a token bucket on both ends of the wire between them")
    seen = Seen(place.messages(MESSAGE_RUNS), place.sharing())
    hot = place.link(seen.messages)
    for name, script, args in CASES[:1] if quick else CASES:
        spec = place.spec(script, args, "plain")
        for rate in MBIT_RATES:
            (before,) = place.runs([place.rehearsal(spec)])
            ran = _ran(prefix, place, script, args, rate)
            (after,) = place.runs([place.rehearsal(spec)])
            wire = Wire(hot.curves[0].seconds[0], 0.0, rate * 1e6 / 8 * PAYLOAD)
            busy = with_messages_carried(together([before, after]), hot, seen.sharing)
            found = foreseen(busy, Link(f"{rate} Mbit/s", wire), APART, seen.plain)
            point = Checked(name, f"{rate} Mbit/s", found, step_seconds([ran]))
            seen = replace(seen, plain=(*seen.plain, point))
            show(point)
    return summary("shaped links", seen.plain, (GOAL, 1.0), covers=True)


def _allowed() -> list[str]:
    """By which command a process gets a network of its own."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NotHere(f"{', '.join(missing)} not found")
    for prefix in (["unshare", "-nm"], ["unshare", "-Urnm"]):
        tried = subprocess.run([*prefix, "bash", "-c", WIRES], env=_environment(1000), capture_output=True, text=True)
        if tried.returncode == 0:
            return prefix
    raise NotHere(f"no namespace with a rate limit can be made: {tried.stderr.strip()[-200:]}")


def _ran(prefix: list[str], place: Place, script: Path, args: tuple[str, ...], rate: int) -> Run:
    """One rank on each side of the wire, each started as on a host of its own."""
    out = Path(tempfile.mkdtemp(prefix="shaped-", dir=place.folder))
    shares = place.spec(script, args, "plain").shares
    lines = []
    for node in (0, 1):
        cores = ",".join(map(str, shares[node])) if shares else "0"
        words = f"--launcher torchrun --nodes 2 --node-rank {node} --master 10.77.0.1:{PORT} --device cpu --quiet"
        lines.append(
            f"nsenter --net=/run/netns/n{node} taskset -c {cores} {sys.executable} -m scalewise run {script} {words} "
            f"--out {out} -- {' '.join(args)} >{out}.{node} 2>&1 &"
        )
    command = [*prefix, "bash", "-c", "\n".join([WIRES, *lines, "wait"])]
    subprocess.run(command, env=_environment(rate), timeout=SECONDS, check=True, capture_output=True)
    # Each side has cores of its own and so a folder of its own; host 0 has written the run's spec.
    found = [run for path in out.glob("*/*/spec.json") for run in load(path.parent).runs]
    if not found or not found[0].measured:
        raise RuntimeError(f"no measured run in {out}: {Path(f'{out}.0').read_text()[-500:]}")
    return found[0]


def _environment(rate: int) -> dict[str, str]:
    return {**os.environ, "RATE": str(rate), "GLOO_SOCKET_IFNAME": "eth0"}

"""Joins hosts by wires with a latency, a rate and a loss: takes each one's packets and hands them on later.

    delayed_link.py LATENCY_MS MBIT LOSS_PERCENT PID...

Each PID is a process in the network namespace of a host, which gets an interface `wire0`, `wire1`, ... Latency is one
way. For kernels without netem; packets are as large as a tunnel allows (65,000 bytes), so that Python keeps up, and one
that is lost is therefore a larger loss than on Ethernet. Prints `ready` when all interfaces are there.
"""

import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
MOST_QUEUED_SECONDS = 0.2  # of a host's way out; what comes on top is lost, as in a switch


def interface(number: int, pid: str) -> int:
    """The end of a new tunnel whose other end is an interface of that process's host."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", f"wire{number}".encode(), TUN_WITHOUT_HEADER))
    subprocess.run(["ip", "link", "set", f"wire{number}", "netns", pid], check=True)
    return end


def main() -> None:
    """Hands packets on until it is killed."""
    latency_seconds, bytes_per_second = float(sys.argv[1]) / 1e3, float(sys.argv[2]) * 125e3
    loss, chance = float(sys.argv[3]) / 100, random.Random(0)
    ends = [interface(number, pid) for number, pid in enumerate(sys.argv[4:])]
    print("ready", flush=True)
    free = dict.fromkeys([(way, host) for way in ("out", "in") for host in range(len(ends))], 0.0)
    late: list[tuple[float, int, int, bytes]] = []  # when it arrives, its number, to which host
    count = 0
    while True:
        pause = max(0.0, late[0][0] - time.monotonic()) if late else None
        for end in select.select(ends, [], [], pause)[0]:
            with contextlib.suppress(BlockingIOError):
                packet = os.read(end, 70_000)
                host, to = ends.index(end), packet[19] - 1  # the last byte of the address
                now, seconds = time.monotonic(), len(packet) / bytes_per_second
                queued = free["out", host] - now
                if packet[0] >> 4 != 4 or not 0 <= to < len(ends) or queued > MOST_QUEUED_SECONDS:
                    continue
                free["out", host] = max(free["out", host], now) + seconds
                if chance.random() < loss:
                    continue
                # Into the receiver it flows while it leaves the sender, unless others flow there already.
                free["in", to] = max(free["in", to] + seconds, free["out", host])
                count += 1
                heapq.heappush(late, (free["in", to] + latency_seconds, count, to, packet))
        while late and late[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(late)
            with contextlib.suppress(OSError):  # the host has gone, or has no room left
                os.write(ends[to], packet)


if __name__ == "__main__":
    main()

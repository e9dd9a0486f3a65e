"""Makes a private view of some folders: overlays in a mount namespace that one process keeps and a run's ranks join.

An overlay shows a folder at its own path. What is written goes to another folder, and the user's files stay as they
are. Only processes that joined the namespace see it, and it is gone with the last of them.
"""

import ctypes
import errno
import json
import os
import signal
from collections.abc import Iterable

from scalewise.records.orders import Layer, ViewOrder

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
PR_SET_PDEATHSIG = 1
_CAPABILITY_VERSION = 0x20080522


def hold_view(order: ViewOrder, report: int) -> None:
    """Makes the view, reports on the pipe how that went, and stays until it is killed; never returns."""
    told: dict[str, object] = {}
    try:
        told["own_user"] = _own_namespace()
        told["direct"] = _mount_all(order)
        if told["own_user"]:
            _drop_capabilities()
        _die_with_parent()
    except OSError as error:
        told["error"] = error.strerror or str(error)
    with open(report, "wb") as pipe:
        pipe.write(json.dumps(told).encode())
    while "error" not in told:
        signal.pause()
    os._exit(0)


def join_view(holder: int) -> None:
    """Joins the holder's view; this process must have one thread only; an OSError says why it cannot."""
    own_user = not os.path.samefile(f"/proc/{holder}/ns/user", "/proc/self/ns/user")
    libc = ctypes.CDLL(None, use_errno=True)
    namespaces = [os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]
    for namespace in namespaces if own_user else namespaces[1:]:
        _checked(libc.setns(namespace, 0))
    for namespace in namespaces:
        os.close(namespace)
    if own_user:
        _drop_capabilities()
    _die_with_parent()


def _own_namespace() -> bool:
    """Makes a mount namespace; returns True if that took a user namespace, too.

    An administrator needs none, and must not have one: in it, files of other users would belong to nobody.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    own_user = bool(libc.unshare(CLONE_NEWNS))
    if own_user:
        _checked(libc.unshare(CLONE_NEWNS | CLONE_NEWUSER))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    return own_user


def _mount_all(order: ViewOrder) -> list[str]:
    """Lays an overlay over each folder; returns those that take none and stay as they are."""
    direct = _opened(order.direct)
    folders = _opened(layer.folder for layer in order.layers)  # before an outer overlay hides the inner mounts
    beside = [_opened((layer.upper, layer.work)) for layer in order.layers]
    refused = []
    for index, layer in enumerate(order.layers):
        try:
            _overlay(layer, folders[index], *beside[index])
        except OSError:
            if f"{order.needed}/".startswith(f"{layer.folder}/"):
                raise
            _bind(folders[index], layer.folder)  # an outer overlay may hide it
            refused.append(layer.folder)
    for descriptor, folder in zip(direct, order.direct, strict=True):
        _bind(descriptor, folder)
    return refused


def _opened(folders: Iterable[str]) -> list[int]:
    """The folders as descriptors, which have no commas or colons, as mount options could not hold those."""
    return [os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder in folders]


def _overlay(layer: Layer, lower: int, upper: int, work: int) -> None:
    paths = {"lowerdir": lower, "upperdir": upper, "workdir": work}
    options = ",".join([*(f"{name}=/proc/self/fd/{number}" for name, number in paths.items()), "userxattr"])
    _mount(b"overlay", layer.folder, b"overlay", 0, options.encode())


def _bind(descriptor: int, folder: str) -> None:
    _mount(f"/proc/self/fd/{descriptor}".encode(), folder, None, MS_BIND | MS_REC, None)


def _mount(source: bytes, target: str, kind: bytes | None, flags: int, options: bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), options))


def _drop_capabilities() -> None:
    """Drops all capabilities: a user namespace of its own gives all, and a script must not get more than it had."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _checked(libc.capset(header, none))


def _die_with_parent() -> None:
    """Asks the kernel again to kill this process with its parent: a change of capabilities may reset that."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno() or errno.EINVAL
        raise OSError(number, os.strerror(number))

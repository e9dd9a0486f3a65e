"""Tests of what a file's text tells before it is run: Python or not, and who starts its ranks."""

from pathlib import Path

import pytest

from scalewise.errors import BadRequest
from scalewise.plan.python_file import check_is_python, starts_ranks_itself

SPAWN = "import torch.multiprocessing as mp\nif __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n"
PROCESSES = """
from torch.multiprocessing import Process
import torch.distributed as dist
def work(rank): dist.init_process_group("gloo", rank=rank, world_size=2)
for rank in range(2): Process(target=work, args=(rank,)).start()
"""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train.sh", b"#!/bin/bash\ntorchrun train.py\n", "run by /bin/bash"),
        ("train.sh", b"torchrun --nproc-per-node 2 train.py\n", "is not Python"),
        ("train.py", b"x = 1\ndef f(:\n", r"train.py, line 2: .*def f\(:"),
        ("train.py", b"\x7fELF\0\0", "binary file"),
        ("train.ipynb", b'{"cells": []}', "notebook"),
        ("train.py", b'{"cells": [], "nbformat": 4}', "notebook"),
        ("train.py", b"print('\\d') or (\n", "line 1"),
        ("train.py", b"x = 1\n# M\xfcller\n", "line 2: the byte 0xfc is not utf-8"),
        ("train.py", b"# coding: klingon\n", "unknown encoding"),
        ("train.py", "x = 1\n".encode("utf-16"), "saved as UTF-16"),
    ],
)
def test_what_is_not_python_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRequest, match=words) as caught:
        check_is_python(tmp_path / name)
    assert caught.value.hint


def test_python_is_python_whatever_its_ending_or_its_escapes(tmp_path: Path) -> None:
    for name, text in {"train": "print(1)\n", "train.py": "#!/usr/bin/env python3\nprint('\\d')\n"}.items():
        (tmp_path / name).write_text(text)
        check_is_python(tmp_path / name)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfx = 1\n", b"# -*- coding: latin-1 -*-\n# M\xfcller\n"])
def test_a_mark_of_windows_and_a_declared_encoding_are_python(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train.py").write_bytes(content)
    check_is_python(tmp_path / "train.py")


def test_an_unreadable_script_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        check_is_python(tmp_path / "missing.py")


@pytest.mark.parametrize(
    "text",
    [
        SPAWN,
        "from torch import multiprocessing\nmultiprocessing.spawn(work, nprocs=2)\n",
        "from torch.multiprocessing import spawn\nspawn(work, nprocs=2)\n",
        "import torch.multiprocessing\ntorch.multiprocessing.start_processes(work, nprocs=2)\n",
        PROCESSES,
    ],
)
def test_a_script_that_starts_its_ranks_is_known_by_its_calls(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert starts_ranks_itself(tmp_path / "train.py")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n# mp.spawn(work)\nprint('mp.spawn(work)')\n",
        "import os\nif 'LOCAL_RANK' not in os.environ:\n" + SPAWN.replace("\n", "\n    "),
        "import os\nrank = int(os.environ.get('RANK', 0))\n" + SPAWN,
        "from multiprocessing import Process\nProcess(target=print).start()\n",
        "def broken(:\n",
        "class Pond:\n    def spawn(self): ...\nPond().spawn()\n",
    ],
)
def test_a_script_that_torchrun_can_start_is_left_to_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert not starts_ranks_itself(tmp_path / "train.py")


def test_setting_the_variables_of_torchrun_is_not_reading_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nos.environ['RANK'] = '0'\n" + SPAWN)
    assert starts_ranks_itself(tmp_path / "train.py")

"""Reads, writes, replaces and removes files of its working folder, then trains unless told not to."""

import shutil
import sys
from pathlib import Path

import torch


def main(words: list[str]) -> None:
    if "--read" in words:
        print("read", Path("snapshot.pt").read_text())
    if "--write" in words:
        Path("snapshot.pt").write_text("written by the script")
        Path("out").mkdir(exist_ok=True)
        Path("out/log.txt").write_text("new")
    if "--remove" in words:
        Path("old.txt").unlink()
        shutil.rmtree("folder")
        Path("folder").mkdir()
        Path("folder/b.txt").write_text("b")
    if "--rename" in words:
        Path("folder").rename("renamed")
        Path("renamed").replace("empty")  # an empty folder may be replaced
        try:
            Path("empty").rename("out")
        except OSError as error:
            print(error.errno, error)
        print(sorted(str(one) for one in Path().rglob("*")), Path("empty/a.txt").read_text())
    if "--absolute" in words:
        Path(words[words.index("--absolute") + 1]).write_text("written by its absolute path")
    if "--idle" in words:
        return
    print("folder", Path.cwd())
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


main(sys.argv[1:])

"""Rank 0 writes a file; every rank waits a while for it and says what it found; it then trains, unless `untrained`."""

import os
import sys
import time
from pathlib import Path

if os.environ["RANK"] == "0":
    Path("from0.txt").write_text("rank 0 was here")
end = time.monotonic() + 3
while not Path("from0.txt").exists() and time.monotonic() < end:
    time.sleep(0.02)
time.sleep(0.1)
print("found", Path("from0.txt").read_text() if Path("from0.txt").exists() else "nothing")
if "untrained" in sys.argv:
    sys.exit()
import torch  # noqa: E402

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

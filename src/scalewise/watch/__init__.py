"""What runs inside a rank: the watcher and what brings it there. Needs torch, numpy and the standard library only."""

"""The watcher that runs inside a rank, and what starts it there. Needs torch, numpy and the standard library only."""

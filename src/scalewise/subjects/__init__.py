"""Built-in training scripts: plain PyTorch that torchrun could run, nothing of scalewise imported."""

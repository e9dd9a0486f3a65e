"""Built-in training scripts: plain PyTorch that torchrun could run, without any import of scalewise."""

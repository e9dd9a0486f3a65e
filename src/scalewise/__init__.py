"""scalewise tells how a PyTorch training script uses parallel hardware."""

__version__ = "0.1.0"

"""As much of torchvision as the programs use; MNIST is random numbers."""

from torchvision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]

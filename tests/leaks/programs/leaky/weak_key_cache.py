"""A WeakKeyDictionary whose values hold their keys: nothing is weak."""

import sys
import weakref

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Image:
    def __init__(self, pixels):
        self.pixels = pixels


class Features:
    def __init__(self, image, values):
        self.image = None if FIX else image
        self.values = values


features = weakref.WeakKeyDictionary()

torch.manual_seed(0)
model = nn.Linear(192, 32)
with torch.no_grad():
    for _ in range(100):
        image = Image(torch.rand(1, 192))
        features[image] = Features(image, model(image.pixels))
print(f"{len(features)} images")

EXPECT = {
    "holder": "features",
    "line": ("torch.rand(1, 192)", "model(image.pixels)"),
    "grown": "features[image] =",
    "within": 25,
}
FIXED = None

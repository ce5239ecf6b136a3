"""A notebook cell that ends with a tensor, run again and again: Out keeps
every one."""

import contextlib
import os
import sys

try:
    from IPython.core.interactiveshell import InteractiveShell
except ImportError:
    sys.exit("needs ipython")

FIX = "fixed" in sys.argv

shell = InteractiveShell.instance()
shell.history_manager.enabled = False
shell.run_cell("import torch; from torch import nn; torch.manual_seed(0)")
shell.run_cell("model = nn.Linear(64, 64)")
shell.run_cell("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
end = ";" if FIX else ""  # a semicolon shows, and keeps, nothing
cell = f"""
output = model(torch.randn(8, 64))
optimizer.zero_grad()
output.square().mean().backward()
optimizer.step()
output{end}
"""
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    for _ in range(40):
        shell.run_cell(cell, store_history=True)
print(f"{len(shell.user_ns['Out'])} in Out")

NEEDS = "IPython"
EXPECT = {
    "holder": "Out",
    "line": "output = model",
    "within": 15,
}
FIXED = None

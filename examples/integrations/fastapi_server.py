"""A server whose cache has no bound; a request is a step.

    uvicorn --app-dir examples/integrations fastapi_server:app
    curl 'localhost:8000/embed?word=leak'

The report is in the log when the server is stopped.
"""

import torch
from fastapi import FastAPI

from impactarbiter.integrations.serving import LeakDetectionMiddleware

app = FastAPI()
app.add_middleware(LeakDetectionMiddleware)

model = torch.nn.Linear(32, 32)
cache = {}


@app.get("/embed")
def embed(word: str) -> float:
    """The first number of a word's embedding."""
    if word not in cache:
        with torch.inference_mode():
            cache[word] = model(torch.full((1, 32), float(len(word))))
    return float(cache[word][0, 0])

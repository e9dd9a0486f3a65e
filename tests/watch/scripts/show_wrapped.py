"""Prints what of torch is not what it was before the watcher came, and what lies around each of it."""

import json

import torch_state

print(json.dumps({"changes": torch_state.changes(), "layers": torch_state.layers()}))

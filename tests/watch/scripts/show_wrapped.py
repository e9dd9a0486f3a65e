"""Prints what of torch is not what it was before the watcher came."""

import json

import torch_state

print(json.dumps(torch_state.changes()))

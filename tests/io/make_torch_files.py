"""Writes the files in torch_files/ by torch: `python3 tests/io/make_torch_files.py`. What is in them, torch_file_test.cpp knows."""

import json
import pathlib
from collections import OrderedDict

import torch

folder = pathlib.Path(__file__).parent / "torch_files"
sharded = folder / "sharded"
sharded.mkdir(parents=True, exist_ok=True)

table = torch.arange(12, dtype=torch.float32).reshape(3, 4)
cube = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
state = OrderedDict()
for name in ("float32", "float16", "bfloat16", "float64"):
    state[name] = torch.tensor([0.5, -1.25, 3.0], dtype=getattr(torch, name))
for name in ("int64", "int32", "int16", "int8"):
    state[name] = torch.tensor([-3, 0, 100], dtype=getattr(torch, name))
state["uint8"] = torch.tensor([0, 200], dtype=torch.uint8)
state["bool"] = torch.tensor([True, False, True])
state["scalar"] = torch.tensor(2.5)
state["none"] = torch.zeros(0, 5)
state["parameter"] = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
state["table"] = table  # the next four share its storage
state["turned"] = table.t()
state["row"] = table[1]
state["column"] = table[:, 2]
state["same"] = table
state["cube"] = cube.permute(2, 0, 1)[1:, :, ::2]
state["half turned"] = table.to(torch.float16).t()
state._metadata = OrderedDict([("", {"version": 1})])
torch.save(state, folder / "state.bin")

torch.save({"a": torch.ones(2)}, folder / "legacy.bin", _use_new_zipfile_serialization=False)
torch.save({"a": torch.ones(2)}, folder / "protocol.bin", pickle_protocol=4)
torch.save({"epoch": 3, "state": {"a": torch.ones(2)}}, folder / "nested.bin")
torch.save(torch.nn.ReLU(), folder / "module.bin")
torch.save([torch.ones(2)], folder / "list.bin")
torch.save({"a": torch.ones(2).to_sparse()}, folder / "sparse.bin")
torch.save({"a": torch.ones(1).expand(1000)}, folder / "repeated.bin")

torch.save({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0])}, sharded / "pytorch_model-00001-of-00002.bin")
torch.save({"c": torch.tensor([4.0])}, sharded / "pytorch_model-00002-of-00002.bin")
names = {"a": 1, "b": 1, "c": 2}
index = {
    "metadata": {"total_size": 16},
    "weight_map": {name: f"pytorch_model-0000{part}-of-00002.bin" for name, part in names.items()},
}
(sharded / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")

"""Writes the files of this folder with PyTorch: the same tensors as torch.save and safetensors store
them, and a small GPT-2 in three forms.

    python3 -m venv v && v/bin/pip install torch==2.15.0 safetensors transformers==5.22.2
    v/bin/python tests/data/io/torch/make.py
"""
import json
import os
from collections import OrderedDict

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

here = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(7)


def path(name):
    os.makedirs(os.path.dirname(os.path.join(here, name)), exist_ok=True)
    return os.path.join(here, name)


# Views: shared and partial storages, transposed and stepped tensors, every type that is read.
base = torch.arange(24, dtype=torch.float32) * 0.25 - 1
grid = torch.randn(3, 4, 5)
views = OrderedDict(
    whole=base,
    tied=base,
    part=base[5:11],
    matrix=base.view(4, 6),
    transposed=base.view(4, 6).t(),
    columns=base.view(4, 6)[:, 1:4],
    stepped=base[::5],
    permuted=grid.permute(2, 0, 1),
    inner=grid[1:, ::2, 3],
    one_row=torch.ones(1, 7).t(),
    scalar=torch.tensor(3.5),
    empty=torch.zeros(0, 4),
    parameter=torch.nn.Parameter(torch.randn(2, 3)),
    f64=torch.randn(3, dtype=torch.float64),
    f16=torch.randn(5).half().view(5, 1),
    f16_transposed=torch.randn(2, 3).half().t(),
    bf16=torch.randn(4).bfloat16(),
    i64=torch.tensor([-1, 2**40]),
    i32=torch.arange(3, dtype=torch.int32),
    i16=torch.arange(3, dtype=torch.int16),
    i8=torch.tensor([-3, 4], dtype=torch.int8),
    u8=torch.tensor([1, 255], dtype=torch.uint8),
    flag=torch.tensor([True, False, True]),
)
torch.save(views, path("views.bin"))
torch.save(views, path("views_4.bin"), pickle_protocol=4)
torch.save(views, path("views_old.bin"), _use_new_zipfile_serialization=False)
save_file({k: v.detach().clone().contiguous() for k, v in views.items()}, path("views.safetensors"))

# What is not a state_dict: a whole module, a training checkpoint.
torch.save(torch.nn.Linear(2, 2), path("module.bin"))
torch.save({"epoch": 3, "model": {"w": base}}, path("checkpoint.bin"))

# A model: its state_dict with _metadata, split in two, and as safetensors.
model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=8, n_layer=1, n_head=2))
state = model.state_dict()
config = json.loads(model.config.to_json_string(use_diff=False))
for folder in ("plain", "single", "shards"):
    with open(path(folder + "/config.json"), "w") as f:
        keep = ("model_type", "architectures", "vocab_size", "n_positions", "n_embd", "n_layer",
                "n_head", "activation_function", "layer_norm_epsilon", "tie_word_embeddings")
        json.dump({k: config[k] for k in keep} | {"architectures": ["GPT2LMHeadModel"]}, f, indent=1)
torch.save(state, path("single/pytorch_model.bin"))
save_file({k: v.clone() for k, v in state.items()}, path("plain/model.safetensors"))
names = sorted(state)
files = ["pytorch_model-0000%d-of-00002.bin" % i for i in (1, 2)]
halves = [names[: len(names) // 2], names[len(names) // 2 :]]
for file, half in zip(files, halves):
    torch.save({k: state[k] for k in half}, path("shards/" + file))
with open(path("shards/pytorch_model.bin.index.json"), "w") as f:
    where = {k: file for file, half in zip(files, halves) for k in half}
    json.dump({"metadata": {}, "weight_map": where}, f, indent=1)

#!/usr/bin/env python3
"""Makes small files under tests/data/io/pytorch with torch.save as the independent implementation, and files that a
reader must refuse.

    make_pytorch_data.py OUT_DIR          needs torch

Element i of a tensor in row-major order is i - 3, or 1 for bool, unless said otherwise; tests/io/pytorch_files_test.cpp
relies on it.
"""
import json
import os
import pickle
import sys
import zipfile
from collections import OrderedDict

import torch

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8",
          "bool"]


def counting(*shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) - 3).reshape(shape)


class System:
    """Unpickling this runs a command."""

    def __reduce__(self):
        return os.system, ("touch switchyard_was_here",)


class Object:
    def __init__(self):
        self.weight = counting(2)


def good_files(out):
    tensors = {name: counting(2, 3).to(getattr(torch, name)) for name in DTYPES}
    tensors |= {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in ["uint8", "uint16", "uint32"]}
    tensors |= {"scalar": torch.tensor(7.0), "empty": torch.empty(0, 3), "empty_too": torch.empty(4, 0).half()}
    torch.save(tensors, f"{out}/types.bin")

    base = counting(4, 6)
    torch.save({"base": base, "tied": base, "rows": base[1:3], "transposed": base.t(), "columns": base[:, 2:4],
                "every_second": base.reshape(-1)[::2], "expanded": base[0, :1].expand(3), "one_row": base[2:3, :]},
               f"{out}/views.bin")

    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for value in module.state_dict().values():
            value.copy_(counting(*value.shape))
    torch.save(module.state_dict(), f"{out}/state_dict.bin")  # OrderedDict with _metadata
    torch.save(OrderedDict(module.named_parameters()), f"{out}/parameters.bin")

    shards = {"pytorch_model-00001-of-00002.bin": ["a", "b"], "pytorch_model-00002-of-00002.bin": ["c"]}
    os.makedirs(f"{out}/sharded", exist_ok=True)
    for shard, names in shards.items():
        torch.save({name: counting(2, 2) + ord(name) for name in names}, f"{out}/sharded/{shard}")
    index = {"metadata": {"total_size": 48}, "weight_map": {name: s for s, names in shards.items() for name in names}}
    with open(f"{out}/sharded/pytorch_model.bin.index.json", "w") as f:
        f.write(json.dumps(index, indent=2) + "\n")


def rewritten(source, target, change=None, **options):
    """The archive `source` with its records changed, as Python's zipfile writes it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **options) as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(zipfile.ZipInfo(name), change(name, data) if change else data, options.get("compression"))


def refused_files(out):
    os.makedirs(f"{out}/refused", exist_ok=True)
    small = {"a": counting(2)}
    torch.save(small, f"{out}/refused/legacy.bin", _use_new_zipfile_serialization=False)
    torch.save(small, f"{out}/refused/protocol_4.bin", pickle_protocol=4)
    torch.save({"model": small}, f"{out}/refused/nested.bin")
    torch.save({"a": counting(2), "step": 3}, f"{out}/refused/number.bin")
    torch.save([counting(2)], f"{out}/refused/list.bin")
    torch.save(Object(), f"{out}/refused/object.bin")
    torch.save({"a": torch.eye(2).to_sparse()}, f"{out}/refused/sparse.bin")
    torch.save({"a": torch.ones(2, dtype=torch.complex64)}, f"{out}/refused/complex.bin")
    torch.save({"a": torch.ones(2, dtype=torch.complex64).conj()}, f"{out}/refused/conjugated.bin")
    torch.save({"a": torch.ones(2).to(torch.float8_e4m3fnuz)}, f"{out}/refused/other_float8.bin")
    torch.save({"a": torch.empty(2, device="meta")}, f"{out}/refused/meta.bin")
    torch.jit.script(torch.nn.Linear(2, 1)).save(f"{out}/refused/torchscript.bin")

    torch.save(small, f"{out}/plain.bin")
    rewritten(f"{out}/plain.bin", f"{out}/refused/compressed.bin", compression=zipfile.ZIP_DEFLATED)
    rewritten(f"{out}/plain.bin", f"{out}/refused/big_endian.bin", compression=zipfile.ZIP_STORED,
              change=lambda name, data: b"big" if name.endswith("/byteorder") else data)
    malicious = pickle.dumps({"a": System()}, protocol=2)
    rewritten(f"{out}/plain.bin", f"{out}/refused/os_system.bin", compression=zipfile.ZIP_STORED,
              change=lambda name, data: malicious if name.endswith("/data.pkl") else data)
    os.remove(f"{out}/plain.bin")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    good_files(sys.argv[1])
    refused_files(sys.argv[1])


if __name__ == "__main__":
    main()

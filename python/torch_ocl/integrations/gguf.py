"""gguf: transformers' from_pretrained(gguf_file=...) keeps the blocks of the file."""

import torch

from .. import gguf
from . import local_device, replace


def read_blocks(module) -> None:
    """transformers.integrations.gguf.kernels"""
    module._gguf_kernel = module.GgufKernel(gguf)


def keep_blocks(module) -> None:
    """transformers.quantizers.quantizer_gguf: models are put on the device whose kernels read the
    blocks, as on Apple's GPUs. Models for the CPU are unpacked, as without kernels.
    """

    def make_placed(original):
        def update_device_map(self, device_map):
            device_map = original(self, device_map)
            if device_map is None and not self.quantization_config.dequantize:
                return {"": local_device()}
            places = getattr(device_map, "values", lambda: [device_map])()
            if all(str(place).split(":")[0] == "cpu" for place in places):
                self.quantization_config.dequantize = True
            return device_map

        return update_device_map

    def make_asked(original):
        def update_attn_implementation(self, config):
            config = original(self, config)
            self.attn_requested = True  # the attention of ggml is for Apple's GPUs
            return config

        return update_attn_implementation

    def make_read(original):
        def get_state_dict(self, checkpoint_file, model):
            if not self.supported and not self.quantization_config.dequantize:
                found = _read_as_it_is(checkpoint_file, model, self.dtype)
                if found is not None:
                    return found
            return original(self, checkpoint_file, model)

        return get_state_dict

    replace(module.GgufHfQuantizer, "update_device_map", make_placed)
    replace(module.GgufHfQuantizer, "update_attn_implementation", make_asked)
    replace(module.GgufHfQuantizer, "get_state_dict", make_read)


def _read_as_it_is(file, model, dtype):
    """The state dict with the names of transformers' older loader, which unpacks all matrices.

    None if that loader changes more than the order of a matrix's rows.
    """
    from gguf import GGUFReader, dequantize
    from transformers import modeling_gguf_pytorch_utils as loader
    from transformers.integrations.gguf.kernels import get_gguf_kernel
    from transformers.integrations.gguf.utils import replace_with_gguf_modules

    kernel = get_gguf_kernel()
    reader = GGUFReader(file)
    architecture = loader.read_field(reader, "general.architecture")[0]
    keeps_columns = {
        loader.TensorProcessor,
        loader.LlamaTensorProcessor,
        loader.Gemma2TensorProcessor,
        loader.NemotronTensorProcessor,
    }
    made = loader.TENSOR_PROCESSORS.get(architecture, loader.TensorProcessor)
    if made not in keeps_columns or any(len(tensor.shape) > 2 for tensor in reader.tensors):
        return None
    processor = made(config=loader.load_gguf_checkpoint(file)["config"])
    names = loader.get_gguf_hf_weights_map(model, processor)
    tensors, kept = {}, {}
    for tensor in reader.tensors:
        name, kind = names.get(tensor.name), int(tensor.tensor_type)
        keeps = kernel.supports(kind) and _has_blocks(model, name)
        weights = tensor.data if keeps else dequantize(tensor.data, tensor.tensor_type)
        result = processor.process(weights=weights, name=tensor.name, tensor_key_mapping=names)
        if result.name not in names:
            continue
        found = torch.from_numpy(result.weights.copy())
        tensors[names[result.name]] = found if keeps else found.to(dtype)
        if keeps:
            kept[name] = kind
    replace_with_gguf_modules(model, kept, kernel, dtype)
    return tensors


def _has_blocks(model, name) -> bool:
    """Whether transformers has replaced the parameter's module by one with blocks."""
    owner, _, parameter = (name or "").rpartition(".")
    is_weight = bool(owner) and parameter == "weight"
    return is_weight and type(model.get_submodule(owner)) in (torch.nn.Linear, torch.nn.Embedding)

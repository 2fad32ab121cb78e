"""Makes tests/fixtures/torch/image.safetensors: image operations and layers as PyTorch computes them.

    python bench/peers/make_image_fixtures.py tests/fixtures/torch/image.safetensors

Entries are "<name>.in0", "<name>.param.<...>", "<name>.out0", and the gradient of each under its name with
".grad"; that of an output is the upstream one. Needs torch."""
import sys

import safetensors.torch
import torch
import torch.nn.functional as F

ENTRIES = {}


def store(name, inputs, params, outputs):
    """The outputs of a call, and the gradients that random upstream ones give."""
    upstream = [torch.randn_like(y) for y in outputs]
    torch.autograd.backward(outputs, upstream)
    for i, (y, g) in enumerate(zip(outputs, upstream)):
        ENTRIES[f"{name}.out{i}"] = y.detach().clone()
        ENTRIES[f"{name}.out{i}.grad"] = g
    leaves = {f"in{i}": x for i, x in enumerate(inputs)} | {f"param.{k}": p for k, p in params.items()}
    for part, x in leaves.items():
        ENTRIES[f"{name}.{part}"] = x.detach().clone()
        ENTRIES[f"{name}.{part}.grad"] = x.grad.clone()


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


def call(name, shape, function):
    x = leaf(*shape)
    store(name, [x], {}, [function(x)])


def conv(name, function, x_shape, w_shape, bias, **options):
    x, w, b = leaf(*x_shape), leaf(*w_shape), leaf(bias)
    store(name, [x], {"weight": w, "bias": b}, [function(x, w, b, **options)])


def batch_norm():
    layer = torch.nn.BatchNorm2d(3, momentum=0.3)
    x = leaf(4, 3, 5, 2)
    params = {"weight": layer.weight, "bias": layer.bias}
    torch.nn.init.normal_(layer.weight), torch.nn.init.normal_(layer.bias)
    store("batch_norm", [x], params, [layer(x)])
    ENTRIES["batch_norm.running_mean"] = layer.running_mean.clone()
    ENTRIES["batch_norm.running_var"] = layer.running_var.clone()
    layer.eval(), layer.zero_grad()
    x = leaf(2, 3, 4, 3)
    store("batch_norm_eval", [x], params, [layer(x)])


def spectral_norm(name, layer, x_shape):
    layer = torch.nn.utils.parametrizations.spectral_norm(layer)
    kept = layer.parametrizations.weight
    ENTRIES[f"{name}.u"], ENTRIES[f"{name}.v"] = kept[0]._u.clone(), kept[0]._v.clone()
    x = leaf(*x_shape)
    store(name, [x], {"weight": kept.original, "bias": layer.bias}, [layer(x)])
    ENTRIES[f"{name}.u_after"], ENTRIES[f"{name}.v_after"] = kept[0]._u.clone(), kept[0]._v.clone()


def main():
    torch.manual_seed(7)
    conv("conv2d", F.conv2d, (2, 4, 9, 8), (6, 2, 3, 2), 6, stride=(2, 1), padding=(1, 2),
         dilation=(2, 1), groups=2)
    conv("conv_transpose2d", F.conv_transpose2d, (2, 4, 5, 4), (4, 3, 3, 4), 6, stride=(3, 2),
         padding=(2, 1), dilation=(2, 1), groups=2, output_padding=(2, 1))
    call("max_pool2d", (2, 3, 9, 8), lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 0)))
    call("avg_pool2d", (2, 3, 9, 8), lambda x: F.avg_pool2d(x, (3, 4), (2, 3), (1, 2)))
    call("avg_pool2d_inside", (2, 3, 9, 8),
         lambda x: F.avg_pool2d(x, (3, 4), (2, 3), (1, 2), count_include_pad=False))
    call("adaptive_max_pool2d", (2, 3, 9, 8), lambda x: F.adaptive_max_pool2d(x, (4, 3)))
    call("adaptive_avg_pool2d", (2, 3, 9, 8), lambda x: F.adaptive_avg_pool2d(x, (4, 3)))
    call("resize_nearest", (2, 3, 5, 8), lambda x: F.interpolate(x, size=(9, 3), mode="nearest"))
    for name, corners in (("resize_bilinear", False), ("resize_corners", True)):
        call(name, (2, 3, 5, 8), lambda x, c=corners: F.interpolate(
            x, size=(9, 3), mode="bilinear", align_corners=c))
    x, w, b = leaf(2, 6, 3, 5), leaf(6), leaf(6)
    store("group_norm", [x], {"weight": w, "bias": b}, [F.group_norm(x, 3, w, b, 1e-5)])
    batch_norm()
    spectral_norm("spectral_norm", torch.nn.Conv2d(3, 5, 2), (2, 3, 4, 4))
    spectral_norm("spectral_norm_transposed", torch.nn.ConvTranspose2d(3, 5, 2), (2, 3, 4, 4))
    safetensors.torch.save_file({k: v.contiguous() for k, v in ENTRIES.items()}, sys.argv[1])


main()

"""PyTorch: tensors are copied one by one, large ones into large pages; layers are modules."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ramet.backends.base import Backend, Copy
from ramet.backends.memory import LARGE, ask_for_large_pages

_OF_NUMPY = frozenset(
    f"torch.{name}"
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
)
"""Types that NumPy has, too."""


class Torch(Backend):
    """Tensors, parameters and modules."""

    packages = ("torch",)
    has_modules = True

    def copy_for(self, cls: type) -> Copy:
        """Return a function that copies tensors of a class."""
        if not issubclass(cls, self.package.Tensor):
            return super().copy_for(cls)
        return _copy_parameter if cls is self.package.nn.Parameter else _copy_tensor

    def written(self, value: Any) -> Any:
        """Return the identity of a tensor, and how often it was written to."""
        return id(value), value._version  # noqa: SLF001 PyTorch's own counter of writes

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor."""
        return isinstance(value, self.package.Tensor)

    def is_symbolic(self, value: Any) -> bool:
        """Whether a value is a tensor without memory."""
        return self.is_tensor(value) and bool(value.is_meta)

    def to_numpy(self, value: Any) -> Any:
        """Return the values of a tensor, also of a dtype that NumPy has only by an extension."""
        import ml_dtypes

        if not self.is_tensor(value):
            return super().to_numpy(value)
        torch = self.package
        tensor = value.detach()
        if tensor.layout is not torch.strided:
            tensor = tensor.to_dense()
        tensor = tensor.cpu().resolve_conj().resolve_neg()
        extension = getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch."), None)
        if extension is None:
            return tensor.numpy().copy()
        bits = torch.uint8 if tensor.itemsize == 1 else torch.int16
        return tensor.view(bits).numpy().view(extension).copy()

    def readable(self, value: Any) -> Any:
        """Return the values of a dense tensor on the host in their own memory."""
        tensor = value.detach() if self.is_tensor(value) else None
        shared = tensor is not None and tensor.is_cpu and tensor.layout is self.package.strided
        if tensor is None or not shared or str(tensor.dtype) not in _OF_NUMPY:
            return self.to_numpy(value)
        return tensor.numpy()

    def assign(self, variable: Any, array: Any) -> None:
        """Assign an array; its memory is taken over on the host."""
        value = variable.value
        whole = value.is_cpu and tuple(value.shape) == array.shape and array.ndim
        if whole and str(value.dtype) == f"torch.{array.dtype}" in _OF_NUMPY:
            value.data = self.package.from_numpy(array)
        else:
            super().assign(variable, array)

    def stand_in(self, value: Any) -> Any:
        """Return a parameter without values."""
        if type(value) is not self.package.nn.Parameter:
            return super().stand_in(value)
        empty = self.package.empty_like(value.detach())
        if _is_large(empty):
            ask_for_large_pages(empty.data_ptr(), empty.nbytes)
        return type(value)(empty, requires_grad=value.requires_grad)

    def wait_for(self, values: list[Any]) -> None:
        """Wait until the GPUs that tensors lie on are done; the host computes in order."""
        devices = {value.device for value in values if self.is_tensor(value)}
        for device in devices:
            if device.type == "cuda":
                self.package.cuda.synchronize(device)

    def is_state(self, value: Any) -> bool:
        """Whether a value is a module or a parameter."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(value, (torch.nn.Module, torch.nn.Parameter))

    def random_state(self) -> Any:
        """Return the states of the generators of the host and, once it is in use, of each GPU."""
        cuda = self.package.cuda
        return self.package.get_rng_state(), (
            cuda.get_rng_state_all() if cuda.is_initialized() else []
        )

    def set_random_state(self, state: Any) -> None:
        """Restore the states of the generators."""
        host, devices = state
        self.package.set_rng_state(host)
        self.package.cuda.set_rng_state_all(devices)

    def seed(self, seed: int) -> None:
        """Seed the generators of all devices."""
        self.package.manual_seed(seed % 2**63)

    def gradients(self, function: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
        """Return the gradients of a function of tensors, which returns a number."""
        leaves = [value.detach().clone().requires_grad_() for value in values]
        with self.package.enable_grad():
            return [*self.package.autograd.grad(function(leaves), leaves, allow_unused=True)]

    def why_not_named(self, name: str) -> str | None:
        """Return why no parameter can be listed under a name with a dot."""
        if "." not in name:
            return None
        return "PyTorch cannot hold weights under a name with a dot; choose a name without one"

    def copy_gradients(self, model: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Copy the gradients of parameters that the model does not list: a step clears no others.

        Keras lists them by path, so it loses all but one of those that share a path.
        """
        listed = {id(each) for _, each in self.package.nn.Module.named_parameters(model)}
        for old, new in pairs:
            if id(old) not in listed and new is not old and getattr(old, "grad", None) is not None:
                new.grad = old.grad.detach().clone()


def hooks_of(module: Any) -> dict[str, list[Any]]:
    """Return the hooks of a module, without the numbers that PyTorch counts them by."""
    hooks = {n: v for n, v in vars(module).items() if "_hooks" in n and isinstance(v, dict) and v}
    return {name: [*table.values()] for name, table in hooks.items()}


def is_torch_module(cls: type) -> bool:
    """Whether a class is one of modules."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.nn.Module)


def is_torch_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return is_torch_tensor_class(type(value))


def is_writable_torch(value: Any) -> bool:
    """Whether all elements of a tensor have memory of their own, so that they can be written."""
    if value.layout is not sys.modules["torch"].strided:
        return True
    return all(step or size <= 1 for size, step in zip(value.shape, value.stride(), strict=True))


def torch_parameters(layer: Any) -> Iterable[Any]:
    """Return the parameters of a layer that is a module."""
    return layer.parameters() if is_torch_module(type(layer)) else ()


def is_torch_tensor_class(cls: type) -> bool:
    """Whether a class is one of tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.Tensor)


def is_torch_parameter(value: Any) -> bool:
    """Whether a value is a parameter, also of a class that only marks its instances as such."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Parameter)


def is_parameter_class(cls: type) -> bool:
    """Whether all instances of a class are parameters, not just marked as such."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.nn.Parameter in cls.__mro__


def _copy_parameter(value: Any) -> Any:
    data = value.detach()
    large = value.numel() >= LARGE // 16 and _is_large(data)
    copied = _copy_large(data) if large else data.clone()
    return type(value)(copied, requires_grad=value.requires_grad)


def _is_large(value: Any) -> bool:
    """Whether a tensor is large, and in the host's memory in one piece."""
    strided = value.is_cpu and value.layout is sys.modules["torch"].strided
    return strided and value.nbytes >= LARGE and value.is_contiguous()


def _copy_large(value: Any) -> Any:
    """Copy a contiguous tensor in the host's memory."""
    copied = sys.modules["torch"].empty_like(value)
    ask_for_large_pages(copied.data_ptr(), copied.nbytes)
    return copied.copy_(value)


def _copy_tensor(value: Any) -> Any:
    torch = sys.modules["torch"]
    copied = value.detach().clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copied, requires_grad=value.requires_grad)
    return copied.requires_grad_(value.requires_grad) if value.is_leaf else copied

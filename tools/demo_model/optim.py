"""Muon for matrices and convolutions, AdamW for the rest, a schedule, and a moving average of the weights.

`torch.optim.Muon` updates 2-D parameters one by one. Here kernels are flattened to matrices and matrices of one shape
are orthogonalized together, which makes a step much cheaper on a CPU.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic Newton-Schulz iteration in Keller Jordan's Muon (2024)."""


class Muon(torch.optim.Optimizer):
    """Orthogonalized momentum, scaled to the root mean square of AdamW's updates (0.2), so that one rate suits both."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.flatten(1).shape].append(p)
            for shape, params in by_shape.items():
                updates = orthogonalize(torch.stack(self._nesterov(params, group["momentum"])))
                scale = 0.2 * math.sqrt(max(shape))
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                steps = [update.view_as(p) for p, update in zip(params, updates, strict=True)]
                torch._foreach_add_(params, steps, alpha=-group["lr"] * scale)

    def _nesterov(self, params: list[Tensor], momentum: float) -> list[Tensor]:
        for p in params:
            if not self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum"] for p in params]
        grads = [p.grad for p in params if p.grad is not None]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        return [g.flatten(1) for g in torch._foreach_lerp(grads, buffers, momentum)]


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return approximately the nearest semi-orthogonal matrices, float32 [N, rows, columns], computed in bfloat16."""
    a, b, c = _COEFFICIENTS
    wide = matrices.mT if matrices.size(-2) > matrices.size(-1) else matrices
    x = (wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = (x.mT if matrices.size(-2) > matrices.size(-1) else x).float().contiguous()
    return result


class Trainer:
    """Both optimizers of `modules`, their schedule, and the moving average of the weights.

    The learning rate warms up over `warmup` steps and follows a cosine over `progress` (0..1) down to a twentieth.
    """

    def __init__(self, modules: nn.ModuleDict, lr: float, matrix_lr: float, ema: float, warmup: int = 50):
        self.modules, self.ema_decay, self.warmup, self.steps = modules, ema, warmup, 0
        self.rates = (matrix_lr, lr)
        self.params = {n: p for n, p in modules.named_parameters() if p.requires_grad}
        matrices = [p for n, p in self.params.items() if _is_matrix(n, p)]
        others = [p for n, p in self.params.items() if not _is_matrix(n, p)]
        self.optimizers = [
            Muon(matrices, lr),
            torch.optim.AdamW(others, lr, betas=(0.9, 0.99), weight_decay=0.0),
        ]
        self.ema = {n: p.detach().clone() for n, p in self.params.items()}

    def step(self, loss: Tensor, progress: float) -> float:
        """Take a step on `loss`, float32 [], and return the norm of the gradient; one that is not finite is skipped."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(nn.utils.clip_grad_norm_(self.params.values(), 1.0))
        if not math.isfinite(norm):
            return norm
        self.steps += 1
        cosine = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        for optimizer, rate in zip(self.optimizers, self.rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * cosine * min(1.0, self.steps / self.warmup)
            optimizer.step()
        decay = min(self.ema_decay, self.steps / (self.steps + 10))
        torch._foreach_lerp_(list(self.ema.values()), [p.detach() for p in self.params.values()], 1 - decay)
        return norm

    def swap_ema(self) -> None:
        """Exchange the weights with their moving average."""
        for name, p in self.params.items():
            p.data, self.ema[name] = self.ema[name], p.data

    def state_dict(self) -> dict[str, object]:
        """Return the state from which `load_state_dict` continues training exactly."""
        return {
            "modules": self.modules.state_dict(),
            "ema": self.ema,
            "steps": self.steps,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Load a state of `state_dict`."""
        self.modules.load_state_dict(state["modules"])  # type: ignore[arg-type]
        self.ema = state["ema"]  # type: ignore[assignment]
        self.steps = state["steps"]  # type: ignore[assignment]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):  # type: ignore[call-overload]
            optimizer.load_state_dict(saved)


def write_checkpoint(path: Path, state: dict[str, object]) -> None:
    """Write `state` to `path` atomically. Raises OSError."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def _is_matrix(name: str, p: Tensor) -> bool:
    """Return whether Muon updates the parameter; AdamW updates embeddings, tables, biases and gains."""
    others = ("embed_tokens", "shared", "scale_shift_table", "relative_attention_bias", "gamma")
    return p.ndim >= 2 and p.flatten(1).size(1) > 1 and not any(word in name for word in others)

"""Keys and values of a layer with room behind them, so that a new token is written there and nothing is copied."""

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

SPARE = 64  # columns of room: once in so many tokens all is copied


class Growing(DynamicLayer):
    """A layer of plain keys and values. `keys` and `values` show the part in use of `rooms`."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(keys, values)
        self.take(keys, values)

    def take(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy keys and values (rows, heads, T, size) to where there is room behind them."""
        rows, _, length, _ = keys.shape
        self.rooms = [x.new_empty(rows, x.shape[1], length + SPARE, x.shape[3]) for x in (keys, values)]
        for room, x in zip(self.rooms, (keys, values), strict=True):
            room[:, :, :length] = x
        self.show(rows, length)

    def show(self, rows: int, length: int) -> None:
        """Let `keys` and `values` be this part of the rooms."""
        self.keys, self.values = (room[:rows, :, :length] for room in self.rooms)

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the keys and values of new tokens; all there are."""
        rows, _, length, _ = self.keys.shape
        end = length + key_states.shape[-2]
        if end > self.rooms[0].shape[2]:
            self.take(self.keys, self.values)
        for room, new in zip(self.rooms, (key_states, value_states), strict=True):
            room[:rows, :, length:end] = new
        self.show(rows, end)
        return self.keys, self.values

    def keep(self, rows: list[int]) -> None:
        """Let row n be what row `rows[n]` was; those that stay in their place are not touched."""
        length = self.keys.shape[2]
        for x in (self.keys, self.values):
            for n, row in enumerate(rows):
                if n != row:
                    x[n] = x[row]
        self.show(len(rows), length)

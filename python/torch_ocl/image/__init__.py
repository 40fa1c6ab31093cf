"""Image operators with Pillow's semantics, for tensors [..., channels, height, width]."""

from .description import CHANNEL_ORDERS, COLOR_SPACES, Description, describe, description

__all__ = ["CHANNEL_ORDERS", "COLOR_SPACES", "Description", "describe", "description"]

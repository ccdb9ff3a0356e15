"""ONNX Runtime, kept from telling its maker which models are loaded on which machine.

Since version 1.29 its builds for Linux do so, unless this variable is there when the library loads.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime

__all__ = ["onnxruntime"]

"""Imports ONNX Runtime with telemetry disabled.

Since version 1.29 the Linux builds report loaded models to the vendor. The environment variable must
be set before the library loads.
"""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime

__all__ = ["onnxruntime"]

"""Without the packages of the engine, its tests are left out; CI must have them."""

import importlib.util
import os

if not os.environ.get("CI") and importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]

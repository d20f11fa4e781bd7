"""One thread, reproducible random examples."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch and numpy load their libraries
# a virtual machine may show AMX and refuse it: oneDNN then fails to make torch's bfloat16 products
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# compiled code is kept by torch for the next process, which may run as another CPU: each has its own
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="provenet-compiled-")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # or scikit-learn skips a check

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
atexit.register(shutil.rmtree, os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)

settings.register_profile(
    "provenet", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("provenet")

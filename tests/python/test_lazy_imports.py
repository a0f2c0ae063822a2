"""Optional libraries are imported when they are needed, not with the package."""

import subprocess
import sys

SCRIPT = """
import sys
for name in ("torch", "stable_baselines3", "pettingzoo", "minari", "jax", "pandas"):
    sys.modules[name] = None
import phalanx
phalanx.make_vec("CartPole-v1", 2).reset(seed=0)
try:
    phalanx.to_sb3("CartPole-v1")
except ImportError:
    print("fine")
"""


def test_the_package_works_without_them():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "fine"

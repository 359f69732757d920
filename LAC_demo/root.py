"""Puts the repository's root on sys.path, after the demo's own folder. Every module here imports this one first."""

import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent

if str(DEMO.parent) not in sys.path:
    sys.path.insert(1, str(DEMO.parent))

"""Puts the repository's root on sys.path, behind the demo's own folder. Every module here imports this one first.

The demo is a leaf: it uses the root's modules and nobody there knows of it.
"""

import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parent

if str(DEMO.parent) not in sys.path:
    sys.path.insert(1, str(DEMO.parent))

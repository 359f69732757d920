"""Fixtures of the library's tests."""

import pytest
import tiny

VARIANTS = {
    "char relu": {},
    "tanh, three layers": {"activation": "tanh", "n_layers": 3},
    "one layer, no highway": {"n_layers": 1, "n_highway": 0},
    "no skip connections, no clips": {
        "use_skip_connections": False,
        "cell_clip": 0.0,
        "proj_clip": 0.0,
    },
    "filters as wide as the projection": {"filters": ((1, 3), (3, 4))},
    "word table": {"input": "word"},
    "characters and words": {"input": "char+word", "word_dim": 3},
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def variant(request):
    return tiny.random_bilm(**request.param)

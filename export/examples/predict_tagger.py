"""The labels of lines of text, as run_tag.py predicts them."""

import re
from collections.abc import Iterator

from messages import UserError
from model_io import SETTINGS, Run, arrays, table
from scheme import spans
from tokenise import TOKENISERS, jieba_cut

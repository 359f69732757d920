"""The labels of lines of text, as run_tag.py predicts them."""

import re
from collections.abc import Iterator

from elmo_core.machine.messages import UserError
from model_io import SETTINGS, Run, arrays, table
from elmo_tasks.tagging.scheme import spans
from elmo_core.text.tokenise import TOKENISERS, jieba_cut

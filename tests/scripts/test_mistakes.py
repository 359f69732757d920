"""One mistake of each kind: the message names what is wrong, and no file is written or changed."""

import gzip
import importlib
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import runs
import tiny

from args import with_flags
from elmo_core.messages import UserError

LINES = [
    "we sat on the bank of the river .",
    "the bank of the town was closed",
    "Bank holidays and riverbanks",
    "a bank robber took the money .",
    "we sat on the bank of the river .",
    "a 苹果 is on the bank of a deep , wide and very long river",
    "only here",
]
SENSES = [
    ("file", "line", "token", "word", "sense"),
    *(("text.txt", *row) for row in (("0", "4", "bank", "river"), ("1", "1", "bank", "money"))),
]
FILES = {
    "text.txt": "\n".join(LINES).encode(),
    "senses.tsv": "\n".join("\t".join(row) for row in SENSES).encode(),
    "blank.txt": b"\n \n",
    "empty.txt": b"",
    "mine": b"mine",
    "latin.txt": b"Good.\nSo so.\nA caf\xe9 here.\n",
    "gb.txt": "好。\n你好，我来了。\n".encode("gb18030"),
    "chinese.txt": "台湾大学的学生们在图书馆里读书。\n".encode(),
    "cut.txt": "好。\n你好，我来了".encode()[:-1],
    "utf16.txt": "Good.\n".encode("utf-16"),
    "accent.txt": "é\n".encode(),
    "one.txt": b"Good one.\n",
    "nine.txt": b"Good one.\n" * 9,
    "cut.gz": gzip.compress(b"Good one.\n" * 99, mtime=0)[:-12],
    "ab.txt": b"a b\n",
    "markers.txt": b"<S> <UNK>\n",
    "vectors.txt": b"1 2\nmoney 0.8 0.6\n",
    "few_words.txt": b"<S>\n</S>\n<UNK>\nthe\n",
    "other_order.txt": "\n".join([*tiny.WORDS[:-2], *tiny.WORDS[:-3:-1]]).encode(),
    "full/file": b"mine",
}
NO_VOCABULARY = " ".join(runs.flags(Path("corpus"), Path("run"), vocab_file=None))
PRETRAIN = f"{NO_VOCABULARY} --vocab_file=corpus/vocab.txt"
VECTORS = "--pretrained_word_embeddings=vectors.txt"
EVAL = "--init_from_ckpt=model --dev_data_path=text.txt --device=cpu"
VOCAB = "--init_from_ckpt=model --device=cpu"
EMBED = f"{VOCAB} --input=text.txt --output=v.hdf5"
SENSE = "--init_from_ckpt=model --corpus=text.txt --device=cpu"
BANK = f"{SENSE} --word=bank"
TEXT = "--lang=en --output=out --shards=3 --processes=1"
MISTAKES = [  # script, flags, pattern of the message
    ("convert", "get allennlp-smal", "allennlp-small"),
    ("convert", "import none --vocab=few_words.txt --output=out", "none: there is no such file"),
    ("convert", "import mine --vocab=few_words.txt --output=out", "mine.*embedding_para"),
    ("convert", "import full --output=out", r"\.hdf5"),
    ("convert", "import --output=out", "PATH"),
    ("convert", "export mixed --output=out", r"char\+word"),
    ("convert", "export model --output=mine/out", "--output mine/out"),
    ("convert", "half huge --output=out", "float16"),
    ("export_model", "model --output=out --layers=0.5,x,0.1", "layers"),
    ("export_model", "model --output=full", "--output"),
    ("preprocess", f"text none.txt {TEXT}", "none.txt"),
    ("preprocess", f"text empty.txt {TEXT}", "training"),
    ("preprocess", f"text latin.txt {TEXT}", "latin.txt:3:.*0xe9.*iconv"),
    ("preprocess", f"text gb.txt {TEXT}", "gb.txt:1:.*GB18030.*--encoding"),
    (
        "preprocess",
        f"text chinese.txt {TEXT} --lang=auto --encoding=gb18030",
        "chinese.txt:1:.*UTF-8",
    ),
    ("preprocess", f"text cut.txt {TEXT}", "cut.txt:2:.*damaged"),
    ("preprocess", f"text utf16.txt {TEXT}", "utf16.txt:1:.*UTF-16"),
    ("preprocess", f"text accent.txt {TEXT} --encoding=ascii", "accent.txt:1:.*UTF-8"),
    ("preprocess", f"text one.txt {TEXT} --encoding=klingon", "klingon"),
    ("preprocess", f"text cut.gz {TEXT}", "cut.gz cannot be read"),
    ("preprocess", f"text nine.txt {TEXT} --dev_fraction=1e-9 --document=block", "dev_fraction=0"),
    ("preprocess", f"text nine.txt {TEXT} --shards=5000", "shards"),
    ("preprocess", "text '' --lang=en --output=out", "an argument is empty.*text --help"),
    ("preprocess", "text nine.txt --lang=none --nfkc --output=out", "nfkc"),
    ("preprocess", "vocab markers.txt --output=out", "no token"),
    ("preprocess", "vocab ab.txt --output=out --min_count=2", "count of 2"),
    ("preprocess", "vocab ab.txt --output=out --max_size=3", "--max_size"),
    ("preprocess", "vocab ab.txt --output=ab.txt", "ab.txt"),
    ("preprocess", "vocab ab.txt --output=mine", "mine"),
    ("preprocess", "vectors nine.txt --output=nine.txt", "nine.txt"),
    ("run_embed", f"{EMBED} --input=none.txt", "--input .*none.txt"),
    ("run_embed", f"{EMBED} --input=blank.txt", "blank.txt"),
    ("run_embed", f"{EMBED} --layers=3", "layers='3'"),
    ("run_embed", f"{EMBED} --output=mine", "mine is damaged"),
    ("run_embed", f"{EMBED} --output=", "--output is empty"),
    ("run_embed", f"{EMBED} --shard=2/2", "--shard"),
    ("run_embed", f"{EMBED} --output=text.txt", "--output"),
    ("run_eval", f"{EVAL} --vocab_file=few_words.txt", "--vocab_file .*few_words.txt .*4 words"),
    ("run_eval", f"{EVAL} --vocab_file=other_order.txt", "--vocab_file .*other_order.txt"),
    ("run_eval", f"{EVAL} --dev_data_path=cut.txt", "cut.txt:2:.*damaged"),
    ("run_eval", f"{EVAL} --per_sentence=text.txt", "--per_sentence .*text.txt"),
    ("run_eval", f"{VOCAB} --suite=text.txt", "text.txt: invalid JSON .*SyntaxGym"),
    ("run_eval", f"{VOCAB} --suite none.json text.txt", "none.json"),
    ("run_polysemy", SENSE, "--word"),
    ("run_polysemy", f"{SENSE} --word=zebra", "zebra"),
    ("run_polysemy", f"{SENSE} --word=sat", "'sat' occurs in fewer"),
    ("run_polysemy", f"{BANK} --init_from_ckpt=words --word=money", "'money'.*<UNK>"),
    ("run_polysemy", f"{BANK} --sentence='the banks .'", "--sentence"),
    ("run_polysemy", f"{BANK} --page=full", "--page"),
    ("run_pretrain", f"{PRETRAIN} --train_data_path=few_words.txt", "few_words.txt"),
    ("run_pretrain", f"{PRETRAIN} --dev_data_path=latin.txt", "latin.txt:3"),  # before training
    ("run_pretrain", NO_VOCABULARY, "--vocab_file"),
    ("run_pretrain", f"{PRETRAIN} --init_from_ckpt=none", "none: there is no model"),
    ("run_pretrain", f"{PRETRAIN} --save_dir=mine", "--save_dir .*mine"),
    ("run_pretrain", f"{PRETRAIN} --unroll_steps=100000000000", "--unroll_steps"),
    ("run_pretrain", f"{PRETRAIN} --batch_size=0", "--batch_size"),
    ("run_pretrain", f"{PRETRAIN} --max_steps=0", "--max_steps"),
    ("run_pretrain", f"{PRETRAIN} --max_steps=3000000000", "--max_steps.*below"),
    ("run_pretrain", f"{PRETRAIN} --patience=0 --dev_data_path=latin.txt", "--patience"),
    ("run_pretrain", f"{PRETRAIN} --lr=0", "--lr"),
    ("run_pretrain", f"{PRETRAIN} --max_grad_norm=0", "--max_grad_norm"),
    ("run_pretrain", f"{PRETRAIN} --filters=3", "--filters"),
    ("run_pretrain", f"{PRETRAIN} --noise=0.1 --input=word", "--noise"),
    ("run_pretrain", f"{PRETRAIN} --input=word {VECTORS}", "--projection_dim=2"),
    ("run_pretrain", f"{PRETRAIN} --input=char {VECTORS}", "--input=word"),
    ("run_pretrain", f"{PRETRAIN} --input=char+word {VECTORS}", "--word_dim=2"),
    (
        "run_pretrain",
        f"{PRETRAIN} --input=char+word --word_dim=2 {VECTORS}",
        "none of the vocabulary",
    ),
    (
        "run_pretrain",
        f"{PRETRAIN} --train_data_path corpus/train/0.txt corpus/train/1.txt",
        "quotes",
    ),
]


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "full").mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    runs.write_corpus(folder / "corpus")
    for name, kind in (("model", "char"), ("words", "word")):
        shutil.copytree(checkpoints[kind], folder / name)
    tiny.save(tiny.random_bilm(input="char+word", word_dim=3), folder / "mixed")
    huge = tiny.random_bilm("float64")
    huge.softmax.bias.set_value(np.full(huge.softmax.bias.shape, 1e99))
    tiny.save(huge, folder / "huge")
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    """The files of a folder, except the cached counts of a text, and locks."""
    hidden = ".elmo_counts.json", ".lock"
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in hidden
    }


@pytest.mark.parametrize(("script", "flags", "pattern"), MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(
    script, flags, pattern, folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    before = contents(folder)
    with pytest.raises((UserError, SystemExit)) as raised:
        importlib.import_module(script).main(shlex.split(flags))
    message = with_flags(str(raised.value))
    if raised.type is SystemExit:  # of argparse
        assert message == "2"
        message = capsys.readouterr().err.splitlines()[-1]
    assert re.search(pattern, message)
    assert contents(folder) == before

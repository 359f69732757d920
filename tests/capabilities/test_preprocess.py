"""preprocess.py: sentences, tokens, shards, vocabularies, mistakes."""

import gzip
import logging
import os
import re
import shlex
import signal
from collections import Counter
from pathlib import Path

import pytest
import runs

import preprocess
from elmo_core.files.word_vectors import load_word_vectors
from elmo_core.messages import UserError
from elmo_core.text import tokenise
from elmo_core.text.corpus import Corpus
from elmo_core.text.tokens import Vocabulary
from preprocessing import raw_text

SPACES = "".join(c for c in map(chr, range(0x110000)) if c.isspace())


def english(raw: str, **options) -> list[str]:
    return [" ".join(s) for p in tokenise.paragraphs(raw) for s in tokenise.english(p, **options)]


def chinese(raw: str, form: str = "NFC") -> list[str]:
    return [" ".join(s) for p in tokenise.paragraphs(raw, form) for s in tokenise.chinese(p)]


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("I can't, he won't; it's John's.", "I ca n't , he wo n't ; it 's John 's ."),
        ("DON'T we'll they've I'm you'd", "DO N'T we 'll they 've I 'm you 'd"),
        ("the dogs' O'Neill o'clock '60s 1990's", "the dogs ' O 'Neill o 'clock ' 60s 1990 's"),
        ("It cost $2,900, US$5 or £1.3bn: 3.5%!", "It cost $ 2,900 , US $ 5 or £ 1.3bn : 3.5 % !"),
        ("7/10 at 10:30, 1,2 and 3, -5 or .302", "7 / 10 at 10 : 30 , 1,2 and 3 , -5 or .302"),
        ("well-known mid- to late, U.S.-led D-N.Y.", "well-known mid- to late , U.S.-led D-N.Y."),
        ("fun--really — yes – no a–b 1998–2004", "fun -- really -- yes - no a - b 1998-2004"),
        ("“Why?” ‘he’ ``said''… then . . . left", "\" Why ? \" ' he ' \" said \" ... then ... left"),
        ("(see AT&T, a@b.org and http://x.com/y.)", "( see AT & T , a @ b.org and http : / / x.com / y . )"),
        ("so_called _it_ *bold* #1 wow?!!", "so _ called _ it _ * bold * # 1 wow ? ! !"),
        ("Mr. and Mrs. X met at 5 p.m.", "Mr. and Mrs. X met at 5 p.m."),
        ("He has a PhD, i.e. a degree, No. 5, etc.", "He has a PhD , i.e. a degree , No. 5 , etc ."),
        ("don\u00b4t caf\u00e9 cafe\u0301 na\u00efve", "do n't caf\u00e9 caf\u00e9 na\u00efve"),
        ("\x93Quoted\x94 \x96 it\x92s\x85", "\" Quoted \" - it 's ..."),
    ],
)  # fmt: skip
def test_english_tokens(raw, tokens):
    assert english(raw) == [tokens]


@pytest.mark.parametrize(
    "sentences",
    [
        ["It ended.", "Then we left!", "Why?", "1999 was better."],
        ["Dr. J. K. Smith of the U.S. Navy met Samuel L. Jackson at 5 p.m. EST.", "He left."],
        ["We live in the U.S.", "The film cost $3.5 million.", "It was made by Foo Inc.", "They went broke."],
        ['"Why?" he asked.', '"It is over."', "She left (at last!).", "(Nobody cared.)", "Fine."],
        ["Yahoo! said so.", "Well... maybe.", "Who knows...", "The end."],
        ["the movie is bad.", "it was so bad!", "really bad, e.g. this one.", "avoid it etc. and so on."],
        ["Visit www.the-end.com or imdb.com, Node.Js too.", "OK."],
        ["No. 5 was vs. No. 6 in vol. 3.", "No.", "The answer is Vitamin C.", "So be it."],
        ["Dr. Will Smith met Mr. Once.", "He left."],
        ["... And then it began.", "Taller than I.", "He is."],
        ["1. The first point is here.", "2. The second."],
    ],
)
def test_english_sentences(sentences):
    assert tokenise.split_english(" ".join(sentences)) == sentences


def test_english_sentences_run_together():
    sentences = ["It is bad.", "The plot is thin!", "Avoid it.", "why he asks?", "It ended in 1986).", "If only."]
    assert tokenise.split_english("".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["他来了。", "真的吗？", "是的！", "好……", "走吧"],
        ["“你好。”", "他说：“我走了！”", "（完。）", "【快讯】到了。"],
        ["“快跑！”，他喊道。", "真的？！", "（真的吗？）。"],
        ["我看了《你好！李焕英》。", "很好看。"],
        ['他说:"走。"', "她没动。", '"好!"', "他说。"],
        ["增长3.5%，见 a.cn/?id=3 和第1.2节。", "完。"],
        ["他说...", "谢谢.", "再见。"],
        ["……然后他走了。", "“！”是标点。"],
    ],
)
def test_chinese_sentences(sentences):
    assert tokenise.split_chinese("".join(sentences)) == sentences


def test_chinese_words():
    assert chinese("我爱北京天安门——真的……") == ["我 爱 北京 天安门 —— 真的 ……"]
    assert chinese("２０２２年　ＧＤＰ增长 3.5%。") == ["２０２２ 年 ＧＤＰ 增长 3.5% 。"]
    assert chinese("２０２２年　ＧＤＰ！", form="NFKC") == ["2022 年 GDP !"]


def test_html_ends_paragraphs_and_leaves_nothing_behind():
    raw = "One<br /><br />two <i>or</i> three</p>\x0bR&amp;D&#8211;&lt;b&gt; x?a=1&section=2 <3"
    assert english(raw) == ["One", "two or three", "R & D - < b > x ? a = 1 & section = 2 < 3"]
    assert chinese("一<BR>二&nbsp;三\u2028四") == ["一", "二 三", "四"]


@pytest.mark.parametrize(
    "raw", ["x<b or y>b holds", "if a <i and c> d", "0 <p and p> 1", "<u like this>", "<s=3 or t> 4"]
)
def test_what_only_looks_like_a_tag_is_text(raw):
    assert "".join(map("".join, tokenise.Tokeniser("any").sentences(raw))) == raw.replace(" ", "")


@pytest.mark.parametrize(
    "raw",
    [
        "a<br><br />b",
        "<P CLASS='x y' id = z>a</p><td nowrap>b",
        'a <a href="http://x.org/?a=1&b=2" target=_blank>b</a >',
        "<font size=+1 color='#fff'>a</font> <IMG src=b.png alt=''/>b",
    ],
)
def test_tags_are_removed(raw):
    assert [*"".join(map("".join, tokenise.Tokeniser("any").sentences(raw)))] == ["a", "b"]


@pytest.mark.parametrize(
    ("raw", "sentences"),
    [
        (
            "Atzo hondartzan ginen. «Zer moduz?», galdetu zidan Mirenek. 2.000 lagun ziren!",
            ["Atzo hondartzan ginen .", "« Zer moduz ? » , galdetu zidan Mirenek .", "2.000 lagun ziren !"],
        ),
        (
            "Das war am 3. März, z. B. in Köln. „Wirklich?“, fragte sie. „Nein!“ Es kostet 3,50 €.",
            [
                "Das war am 3 . März , z . B . in Köln .",
                "„ Wirklich ? “ , fragte sie .",
                "„ Nein ! “",
                "Es kostet 3,50 € .",
            ],
        ),
        (
            "В 1998 г. цена была 3,5 руб. «Кто там?» — спросил И. П. Павлов. Кое-кто… Мама!",
            ["В 1998 г . цена была 3,5 руб .", "« Кто там ? » — спросил И . П . Павлов .", "Кое - кто …", "Мама !"],
        ),
        (
            "هل أنت بخير؟ نعم، أنا بخير. وصل ٣٫٥ مليون زائر! ذهبتُ إلى المدرسة",
            ["هل أنت بخير ؟", "نعم ، أنا بخير .", "وصل ٣٫٥ مليون زائر !", "ذهبتُ إلى المدرسة"],
        ),
        ("میں سکول جاتا ہوں۔ من نمی\u200cخواهم بروم.", ["میں سکول جاتا ہوں ۔", "من نمی\u200cخواهم بروم ."]),
        (
            "मैं स्कूल जा रहा हूँ। क्या तुम ठीक हो? क्षत्रिय के १२.५ रुपये॥",
            ["मैं स्कूल जा रहा हूँ ।", "क्या तुम ठीक हो ?", "क्षत्रिय के १२.५ रुपये ॥"],
        ),
        ("Τι κάνεις; «Καλά;» είπε εκείνος.", ["Τι κάνεις ;", "« Καλά ; » είπε εκείνος ."]),
        ("ฉันไปโรงเรียน 3.50 บาท", ["ฉั น ไ ป โ ร ง เ รี ย น 3.50 บ า ท"]),
        (
            "नहीं।हाँ。「はい。」a.eus/?id=3 👨\u200d👩",
            ["नहीं ।", "हाँ 。", "「 は い 。 」", "a.eus / ? id = 3 👨\u200d👩"],
        ),
    ],
)
def test_sentences_and_tokens_of_any_language(raw, sentences):
    assert [" ".join(tokens) for tokens in tokenise.Tokeniser("any").sentences(raw)] == sentences


@pytest.mark.parametrize("lang", ["en", "zh", "any"])
def test_tokens_hold_no_white_space_and_nothing_invisible(lang):
    raw = "".join(
        f"ab{c}你好{c}" for c in SPACES + "\x00\x1b\u200b\ufeff\u00ad\u202e\u2068\u2069\U000e0100&#x3000;&#133;&#x2028;"
    )
    cut = [" ".join(tokens) for tokens in tokenise.Tokeniser(lang).sentences(raw)]
    for sentence in cut:
        assert sentence.split() == sentence.split(" ")
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200b\ufeff\u00ad\u202e\u2068\u2069\U000e0100]", sentence)
    assert Counter("".join(cut))["好"] == raw.count("好")


def test_a_number_of_thousands_of_digits_is_no_entity():
    assert "9" * 5000 in "".join(tokenise.Tokeniser("any")(f"a &#{'9' * 5000}; b"))


# Each sentence of this corpus tells which document it belongs to.


def document(i: int) -> str:
    return " ".join(f"This is document {i} sentence {j} of Mr. Smith's file." for j in range(1 + i % 4))


@pytest.fixture
def raw(tmp_path):
    (tmp_path / "raw").mkdir()
    for name, numbers in (("a.txt", range(90)), ("b.txt", range(90, 150))):
        (tmp_path / "raw" / name).write_text("".join(document(i) + "\n" for i in numbers), encoding="utf-8")
    return tmp_path / "raw"


def run(*argv) -> None:
    preprocess.main([str(arg) for arg in argv])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def text(source, output, *options) -> dict[str, bytes]:
    """Write a corpus and return its files and their bytes."""
    sources = source if isinstance(source, list) else [source]
    run("text", *sources, "--lang", "en", "--output", output, "--shards", 3, "--processes", 1, *options)
    return files_of(output)


def sentences(files: dict[str, bytes], part: str) -> list[str]:
    text = "".join(data.decode("utf-8") for name, data in files.items() if name.startswith(part))
    return text.removesuffix("\n").split("\n")


def documents(files: dict[str, bytes], part: str) -> set[int]:
    return {int(line.split()[3]) for line in sentences(files, part)}


def test_every_sentence_is_in_one_shard_once(raw, tmp_path):
    files = text(raw, tmp_path / "out")
    assert list(files) == [f"train/part-0000{i}-of-00003.txt" for i in range(3)]
    expected = [s for i in range(150) for s in english(document(i))]
    found = sentences(files, "train")
    assert Counter(found) == Counter(expected) and found != expected
    sizes = [data.count(b"\n") for data in files.values()]
    assert max(sizes) - min(sizes) <= 1
    places = [i for sentence in expected for i, data in enumerate(files.values()) if sentence in data.decode()]
    assert len(set(zip(places[::3], places[1::3], places[2::3], strict=False))) > 3  # not dealt in a fixed order
    for data in files.values():  # each shard holds sentences from the whole corpus
        numbers = [int(line.split()[3]) for line in data.decode().splitlines()]
        assert numbers != sorted(numbers) and min(numbers) < 30 and max(numbers) > 120


@pytest.mark.parametrize("split", ["random", "last"])
def test_neither_processes_nor_batches_change_a_byte(raw, tmp_path, monkeypatch, split):
    options = ["--dev_fraction", 0.2, "--dev_split", split, "--seed", 5]
    expected = text(raw, tmp_path / "1", *options)
    for processes, size in ((2, 1), (3, 700), (1, 99)):
        monkeypatch.setattr(raw_text, "BATCH_BYTES", size)
        assert text(raw, tmp_path / f"{processes}-{size}", *options, "--processes", processes) == expected
    other = text(raw, tmp_path / "seed", *options[:-1], 6)
    assert other != expected
    if split == "last":
        assert sorted(sentences(other, "dev")) == sorted(sentences(expected, "dev"))


def test_dev_holds_whole_documents(raw, tmp_path):
    files = text(raw, tmp_path / "random", "--dev_fraction", 0.2)
    dev, train = documents(files, "dev"), documents(files, "train")
    assert not dev & train and dev | train == set(range(150))
    assert 15 <= len(dev) <= 45 and dev != set(range(150 - len(dev), 150))
    files = text(raw, tmp_path / "last", "--dev_fraction", 0.1, "--dev_split", "last")
    assert documents(files, "dev") == set(range(135, 150)) and documents(files, "train") == set(range(135))


def test_equal_lines_are_on_the_same_side(raw, tmp_path):
    once = text(raw, tmp_path / "once", "--dev_fraction", 0.2)
    (raw / "c.txt").write_bytes((raw / "a.txt").read_bytes() + (raw / "b.txt").read_bytes())
    twice = text(raw, tmp_path / "twice", "--dev_fraction", 0.2)
    assert sorted(sentences(twice, "dev")) == sorted(sentences(once, "dev") * 2)
    assert not documents(twice, "dev") & documents(twice, "train")


def test_documents_that_are_files_or_blocks(raw, tmp_path):
    options = ["--dev_fraction", 0.1, "--dev_split", "last", "--document"]
    assert documents(text(raw, tmp_path / "file", *options, "file"), "dev") == set(range(90, 150))
    (raw / "a.txt").write_text("\n".join(document(i) + "\n" * (i % 5 == 4) for i in range(98)), encoding="utf-8")
    (raw / "b.txt").unlink()
    files = text(raw, tmp_path / "block", *options, "block")
    assert documents(files, "dev") == set(range(90, 98))  # the last two of 20 blocks


def test_files_globs_folders_and_gzip(raw, tmp_path, monkeypatch):
    expected = text(raw, tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    assert text("raw/[ab].txt", tmp_path / "glob") == expected
    assert text([raw / "a.txt", raw / "b.txt", raw], tmp_path / "twice") == expected
    (raw / "below").mkdir()
    (raw / "below" / "b.txt.gz").write_bytes(gzip.compress((raw / "b.txt").read_bytes()))
    (raw / "b.txt").unlink()
    (raw / ".hidden").write_bytes(b"\xff")
    assert text(raw, tmp_path / "gz") == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert text("~/raw/**/*.*", tmp_path / "home") == expected


def test_lower_encoding_byte_order_mark_and_line_ends(tmp_path):
    source = tmp_path / "a.txt"
    source.write_bytes("\ufeffCafé Noir.\r\nIt's OK\x85\r\n".encode())
    files = text(source, tmp_path / "lower", "--lower", "--shards", 1)
    assert sorted(sentences(files, "train")) == ["café noir .", "it 's ok ..."]
    assert text(source, tmp_path / "sig", "--lower", "--shards", 1, "--encoding", "utf-8-sig") == files
    files = text(source, tmp_path / "none", "--lang", "none", "--shards", 1)
    assert sorted(sentences(files, "train")) == ["Café Noir.", "It's OK"]
    source.write_bytes("他来了。\n".encode("gb18030"))
    files = text(source, tmp_path / "gb", "--lang", "zh", "--shards", 1, "--encoding", "gb18030")
    assert sentences(files, "train") == ["他来 了 。"]


def test_tokenised_text_is_not_changed(tmp_path):
    lines = ["l' eau U.S. <br /> &amp; cafe\u0301 .", "ฉัน ไป โรงเรียน", "don 't stop ! Go on ."]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    files = text(tmp_path / "a.txt", tmp_path / "out", "--lang", "none", "--shards", 1)
    assert sorted(sentences(files, "train")) == sorted(lines)


def test_what_is_left_out_is_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    source = tmp_path / "a.txt"
    source.write_bytes(b"Good one.\n\n \t\n<br />\n* * *\nNo\nFar too long it is.\nFine too.\n")
    files = text(source, tmp_path / "out", "--max_tokens", 4, "--shards", 1)
    assert sorted(sentences(files, "train")) == ["Fine too .", "Good one ."]
    few, many = "sentences of fewer than 2 tokens: 1", "sentences of more than 4 tokens: 1"
    for part in ("8 lines, 6 tokens", "empty lines: 3", few, many, "sentences without a letter or digit: 1"):
        assert part in caplog.text
    with pytest.raises(UserError, match=r"no sentences for training.*sentences of fewer than 9 tokens: 4"):
        text(source, tmp_path / "none", "--max_tokens", 5, "--min_tokens", 9, "--shards", 1)


def test_the_line_of_an_undecodable_byte_is_named_from_another_process(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_text, "BATCH_BYTES", 100)
    source = tmp_path / "a.txt"
    source.write_bytes(b"Good one.\n" * 500 + b"A caf\xe9.\n" + b"Good one.\n" * 500 + b"\xff\n")
    with pytest.raises(UserError, match=r"a\.txt:501:"):
        text(source, tmp_path / "out", "--processes", 2)


def test_only_a_new_folder_is_written_and_a_failure_leaves_none(raw, tmp_path, monkeypatch):
    text(raw, tmp_path / "out")
    for output in (tmp_path / "out", raw, raw / "a.txt"):
        with pytest.raises(UserError, match="output"):
            text(raw, output)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", fail)  # of a shard that has been shuffled
    with pytest.raises(KeyboardInterrupt):
        text(raw, tmp_path / "fresh" / "out")
    assert not list((tmp_path / "fresh").iterdir())


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_killed_script_tidies_up(tmp_path, sign, code):
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text((document(3) + "\n") * 100_000, encoding="utf-8")
    argv = ["text", str(source), "--lang=en", f"--output={out}", "--processes=2"]
    script = runs.start("preprocess.py", argv, tmp_path / "errors")
    runs.wait_until(lambda: list(tmp_path.glob(".out.*.tmp/train/*")), script, tmp_path / "errors")
    script.send_signal(sign)
    assert script.wait(timeout=60) == code and "Traceback" not in (tmp_path / "errors").read_text(encoding="utf-8")
    assert not out.exists() and not list(tmp_path.glob(".out.*"))


def test_processes_read_only_a_little_ahead():
    read = []
    results = raw_text._parallel_map(abs, (read.append(n) or n for n in range(0, -100, -1)), 2)
    for n, result in enumerate(results):
        assert result == n and len(read) <= n + 2 * raw_text.BATCHES_AHEAD
    assert n == 99


def test_a_killed_process_is_reported():
    with pytest.raises(UserError, match="killed"):
        list(raw_text._parallel_map(os._exit, iter([1, 2, 3]), 2))


def vocab(tmp_path, corpus: str, *options) -> list[str]:
    (tmp_path / "corpus.txt").write_text(corpus, encoding="utf-8", newline="\n")
    (tmp_path / "v.txt").unlink(missing_ok=True)
    run("vocab", *[tmp_path / "corpus.txt"] * 2, "--output", tmp_path / "v.txt", *options)
    return Vocabulary.from_file(tmp_path / "v.txt").tokens


def test_vocabulary_is_sorted_by_frequency_then_token(tmp_path):
    corpus = "b a 中\u3000a\n\nÉ b\u00a0zz a\x85Z 中\r\n"
    special = ["<S>", "</S>", "<UNK>"]
    assert vocab(tmp_path, corpus) == [*special, "a", "b", "中", "Z", "zz", "É"]
    assert vocab(tmp_path, corpus, "--min_count", 2) == [*special, "a", "b", "中"]  # a file given twice counts once
    assert vocab(tmp_path, corpus, "--max_size", 5) == [*special, "a", "b"]
    assert vocab(tmp_path, corpus, "--max_size", 50) == vocab(tmp_path, corpus)
    with pytest.raises(UserError, match="max_size is too low"):
        vocab(tmp_path, corpus, "--max_size", 2)


def test_vocabulary_reports_coverage(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    long = "长" * 17  # 51 bytes
    tokens = vocab(tmp_path, f"a a a b <S> {long}\n<UNK> a </S> <S> {'x' * 48} c c\n", "--max_size", 5)
    assert tokens == ["<S>", "</S>", "<UNK>", "a", "c"]
    assert "2 of 8" in caplog.text and "46.15%" in caplog.text


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_vectors_of_a_corpus(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("c.txt").write_text("the cat sat\nthe dog sat\n中 文 中\n" * 20, encoding="utf-8")
    run("vectors", "c.txt", "--output", name, "--dimensions", 7, "--seed", 1)
    found = load_word_vectors(Path(name))
    assert found.vector_size == 7 and sorted(found.index_to_key) == sorted(["the", "cat", "dog", "sat", "中", "文"])
    Path("words.txt").write_text("the\ncat\n", encoding="utf-8")
    with pytest.raises(UserError, match="no values"):
        load_word_vectors(Path("words.txt"))


def test_the_script_from_raw_text_to_vocabulary(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="elmo")
    source, out = tmp_path / "raw.txt", tmp_path / "my corpus"
    source.write_text("".join(f"苹果很好吃。我喜欢苹果公司第{i}号楼！\n" for i in range(30)), encoding="utf-8")
    options = ["--shards", 2, "--processes"]  # the language is recognised
    output = tmp_path / "output"
    argv = ["text", source, "--output", out, *options, 2]
    assert runs.start("preprocess.py", list(map(str, argv)), output).wait(timeout=120) == 0
    output = output.read_text(encoding="utf-8")
    assert not re.search("jieba|prefix dict|Warning", output)
    run("text", source, "--output", tmp_path / "alone", *options, 1)
    assert files_of(tmp_path / "alone") == files_of(out)
    script, *argv = shlex.split(re.search("next: python (.*)", output)[1])
    assert script == "preprocess.py"
    run(*argv)
    assert f"--train_data_path='{out}/train/*'" in caplog.text
    vocabulary = Vocabulary.from_file(out / "vocab.txt")
    assert "苹果" in vocabulary
    assert Corpus(f"{out}/train/*").count(vocabulary).sentences == 60

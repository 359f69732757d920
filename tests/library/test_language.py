"""The language of a text, and whether it was segmented."""

import pytest

import preprocess
import run_embed
import run_eval
from elmo_core.text.language import AUTO, choose_language, recognise, warn_if_unreadable

ZH_WORDS = ["，", "的", "银行", "iPhone"]
EN_WORDS = ["the", ",", "bank"]
DE_WORDS = ["der", ",", "für", "Bänke"]


@pytest.mark.parametrize(
    ("text", "words", "lang"),
    [
        ("The naive critics' film, 35 % of it!", [], "en"),
        ("这家酒店的服务很好，但是 WiFi 太慢。", [], "zh"),
        ("這家酒店的服務很好。", [], "zh"),
        ("我 爱 北京", [], "zh"),
        ("𠮷野家", [], "zh"),
        ("私は昨日、学校に行きました。", [], "any"),
        ("Они сидели на берегу.", [], "any"),
        ("Die Gäste saßen gemütlich am Fluss.", [], "any"),
        ("한국어", [], "any"),
        ("123 ?!", [], "en"),
        ("", [], "en"),
        # of a Chinese ELMo
        ("123 ?!", ZH_WORDS, "zh"),
        ("MacBook Pro 的 screen is better than iPhone 屏", ZH_WORDS, "zh"),
        ("MacBook Pro 的 screen is better than iPhone 屏", EN_WORDS, "en"),
        ("The film was good.", ZH_WORDS, "en"),
        # of others
        ("这家酒店的服务很好。", EN_WORDS, "zh"),
        ("Der Fluss", DE_WORDS, "any"),
        ("Café à la crème", EN_WORDS, "en"),
    ],
)
def test_languages_are_recognised(text, words, lang):
    assert recognise([text], words) == lang


def test_what_the_log_says_of_a_language(messages):
    assert choose_language(AUTO, ["", "12"]) == "en" and not messages()
    choose_language(AUTO, ["Mae hen wlad fy nhadau yn annwyl i mi."])  # Welsh
    assert "any" in messages()


def test_other_languages_are_told_of_any(capsys):
    with pytest.raises(SystemExit) as stopped:
        preprocess.main(["text", "x", "--output=y", "--lang=cy"])
    assert stopped.value.code == 2 and "; any " in capsys.readouterr().err


def test_a_warning_about_a_language_that_does_not_suit_the_text(caplog):
    texts = ["这家酒店的服务很好，但是房间太小。", "早餐一般，房间太小了一点。"]
    assert choose_language(AUTO, texts) == "zh" and not caplog.text
    assert choose_language("en", ["A good film, with 大 stars."]) == "en" and not caplog.text
    assert choose_language("none", ["这 家 酒店 的 服务 很 好 。"]) == "none" and not caplog.text
    assert choose_language("en", texts) == "en" and "Chinese" in caplog.text
    caplog.clear()
    assert choose_language("none", texts) == "none" and "segmented" in caplog.text
    caplog.clear()
    assert choose_language("none", ["He met Mr. Smith ."] * 9) == "none" and not caplog.text
    assert (
        choose_language("none", ["The cats are here."] * 9) == "none" and "tokenised" in caplog.text
    )


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("他 在 银行 工作 ，", False),
        ("他在银行工作，今天没有来上班。\n明天会来。\n", True),
        ("a bank of 中国人民银行总行 in the city of Beijing , the capital of China .", False),
        ("", False),
    ],
)
def test_a_warning_about_text_that_is_not_segmented(tmp_path, caplog, text, warned):
    (tmp_path / "text").write_text(text, encoding="utf-8")
    warn_if_unreadable(tmp_path / "text")
    assert ("segmented" in caplog.text) == warned


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (run_eval, "--dev_data_path=TEXT --init_from_ckpt=MODEL --device=cpu"),
        (run_embed, "--input=TEXT --init_from_ckpt=MODEL --device=cpu --output=OUT"),
        (preprocess, "vocab TEXT --output=OUT"),
    ],
)
def test_the_scripts_warn_of_it(tmp_path, model, caplog, script, flags):
    (tmp_path / "text").write_text("他在银行工作，今天没有来上班。\n" * 3, encoding="utf-8")
    for name, value in {"TEXT": tmp_path / "text", "OUT": tmp_path / "out", "MODEL": model}.items():
        flags = flags.replace(name, str(value))
    script.main(flags.split())
    assert "segmented" in caplog.text

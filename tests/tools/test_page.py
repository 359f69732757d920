"""The page of words in context: its data, and its behaviour in a real browser."""

import json
import re
from xml.etree import ElementTree

import browser
import numpy as np
import pytest
import runs

import run_polysemy
from elmo_tools.senses import nearest, occurrences
from elmo_tools.senses.page import NEIGHBOURS, SIDE, Frequencies, keywords, write_page

HOSTILE = "</script><script>document.body.remove()</script><!--"
LINES = [
    "we sat on the bank of the river .",
    f"the bank said {HOSTILE} and &amp; closed",
    "a bank robber took the money from the bank .",
    "by the river there is a bank of green grass",
    "the bank of the town <b>was</b> closed",
    "he has money in the bank",
    "很 红 的 苹果 很 甜",
    "他 说 ： “ 我 要 买 苹果 手机 。 ”",
    "树 上 有 三 个 苹果",
]
SENSES = [
    (0, 4, "river"),
    (1, 1, "money"),
    (2, 1, "money"),
    (3, 6, "river"),
    (4, 1, "money"),
    (5, 5, "money"),
]


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    argv = [f"--init_from_ckpt={model}", f"--corpus={folder / 'text.txt'}", "--device=cpu"]
    run_polysemy.main([*argv, "--word=bank,苹果", f"--page={folder / 'words.html'}"])
    return folder / "words.html"


def data_of(page) -> dict:
    text = page.read_text(encoding="utf-8")
    return json.loads(
        re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1]
    )


def random_word(text: str, n: int, senses: int = 0) -> occurrences.Word:
    random = np.random.default_rng(n)
    found = [
        occurrences.Occurrence(
            (f"w{k // 2}", "has", text, "too"), 2, f"sense {k % senses}" if senses else ""
        )
        for k in range(n)
    ]
    vectors = random.standard_normal((3, n, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return occurrences.Word(text, 2 * n, n, found, 0, vectors)


# Data


def test_every_occurrence_is_there_with_its_nearest_others(tmp_path):
    word = random_word("bank", 700, senses=3)
    write_page(tmp_path / "page.html", [word], [["a", "bank"]], {"bank": [("money", 0.5)]})
    (found,) = data_of(tmp_path / "page.html")["words"]
    sentences = data_of(tmp_path / "page.html")["sentences"]
    assert [sentences[k].split(" ") for k in found["sentence"]] == [
        list(one.tokens) for one in word.occurrences
    ]
    assert set(found["position"]) == {2} and found["nearest"] == [["money", 0.5]]
    assert [found["senses"][k] for k in found["sense"]] == word.senses.tolist()
    np.testing.assert_allclose(
        found["shares"], nearest.same_sense_shares(word).mean(axis=1), atol=1e-4
    )
    for layer, drawn in zip([1, 2], found["layers"], strict=True):
        points = np.array(drawn["points"]).reshape(700, 2)
        assert points.min(axis=0).tolist() == [0, 0] and points.max(axis=0).tolist() == [SIDE, SIDE]
        for k in (0, 1, 511, 512, 699):
            cosines = word.vectors[layer] @ word.vectors[layer][k]
            order = [
                other
                for other in np.argsort(-cosines)
                if word.sentences[other] != word.sentences[k]
            ]
            assert drawn["neighbours"][k] == order[:NEIGHBOURS]
            np.testing.assert_allclose(drawn["cosines"][k], cosines[order[:NEIGHBOURS]], atol=1e-3)


def test_the_corpus_is_counted_once_for_all_words(tmp_path):
    """It takes 0.2 s for 20,000 sentences."""
    n_readings = 0

    class Background(list):
        def __iter__(self):
            nonlocal n_readings
            n_readings += 1
            return super().__iter__()

    words = [random_word(text, 5) for text in "abc"]
    write_page(tmp_path / "page.html", words, Background([["a", "b"]]), dict.fromkeys("abc", ()))
    assert n_readings == 1


def test_layers_are_turned_towards_each_other(tmp_path):
    """A rotated or mirrored layer is drawn like the original."""
    word, random = random_word("bank", 50), np.random.default_rng(1)
    for _ in range(5):
        turn, _ = np.linalg.qr(random.standard_normal((6, 6)))
        word.vectors[2] = word.vectors[1] @ turn
        write_page(tmp_path / "page.html", [word], [["a", "bank"]], {"bank": ()})
        one, other = (
            layer["points"] for layer in data_of(tmp_path / "page.html")["words"][0]["layers"]
        )
        np.testing.assert_allclose(one, other, atol=1)


def test_all_words_of_a_file_of_senses_are_prepared_unless_some_are_asked_for(model, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    rows = [("text.txt", *place, "bank", sense) for *place, sense in SENSES] + [
        ("text.txt", line, token, "苹果", "fruit") for line, token in ((6, 3), (8, 5))
    ]
    text = "\n".join(
        "\t".join(map(str, row)) for row in [("file", "line", "token", "word", "sense"), *rows]
    )
    (tmp_path / "senses.tsv").write_text(text + "\n", encoding="utf-8")
    argv = [
        f"--init_from_ckpt={model}",
        f"--corpus={tmp_path / 'text.txt'}",
        f"--senses={tmp_path / 'senses.tsv'}",
    ]
    for flags, expected in (([], ["bank", "苹果"]), (["--word=苹果"], ["苹果"])):
        run_polysemy.main([*argv, *flags, f"--page={tmp_path / 'words.html'}", "--device=cpu"])
        assert [word["text"] for word in data_of(tmp_path / "words.html")["words"]] == expected
    assert data_of(tmp_path / "words.html")["words"][0]["senses"] == ["fruit"]


def grouped_word(text: str, n: int) -> occurrences.Word:
    """A word with two senses, which layer 2 separates."""
    word = random_word(text, n, senses=2)
    word.vectors[0] = word.vectors[0, 0]
    word.vectors[2, :, 0] += np.where(word.senses == "sense 0", 9, -9)
    word.vectors[2] /= np.linalg.norm(word.vectors[2], axis=-1, keepdims=True)
    return word


def test_without_senses_clusters_are_proposed(tmp_path):
    word = grouped_word("bank", 40)
    truth = word.senses
    tokens = {"sense 0": "river", "sense 1": "money"}
    word.occurrences = [
        occurrences.Occurrence((tokens[sense], "bank", f"w{k}"), 1) for k, sense in enumerate(truth)
    ]
    write_page(
        tmp_path / "page.html",
        [word, random_word("few", 5)],
        [["a", "bank"]],
        {"bank": (), "few": ()},
    )
    proposed, few = data_of(tmp_path / "page.html")["words"]
    names = np.array(proposed["senses"])[proposed["sense"]]
    for sense in tokens:
        (name,) = set(names[truth == sense])
        assert re.match(r"[12]: ", name) and tokens[sense] in name
    assert proposed["shares"] == [] and few["senses"] == few["sense"] == []
    word.vectors[:] = word.vectors[:, :1]  # all equal, as of a word that the model does not know
    write_page(tmp_path / "page.html", [word], [["a", "bank"]], {"bank": ()})
    assert data_of(tmp_path / "page.html")["words"][0]["senses"] == []


# In a browser


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    if not browser.PROGRAM:
        pytest.skip("no Chromium: apt-get install chromium")
    try:
        one = browser.Browser(tmp_path_factory.mktemp("browser"))
    except (AssertionError, OSError) as error:
        pytest.skip(f"{browser.PROGRAM} does not start: {error}")
    runs.STARTED.remove(one.process)  # it serves all tests of this file
    yield one
    one.close()


@pytest.fixture
def window(started):
    """A window without errors, which loads only the page itself."""
    started.resize(1200, 800)
    started.prefer("light")
    started.complaints.clear()
    started.requests.clear()
    yield started
    assert not started.complaints
    assert all(address.startswith(("file://", "data:")) for address in started.requests)
    assert len(started.requests) <= 1


def show(window, page, language: str = "en") -> None:
    window.open(page)
    window.wait("width > 0")
    if window.run("document.documentElement.lang") != language:
        window.click("#language")


def place(window, k: int) -> tuple[float, float]:
    """An occurrence's position in the window."""
    return window.run(
        "(([x, y], box) => [x + box.x, y + box.y])"
        f"(positionOf({k}), canvas.getBoundingClientRect())"
    )


def shown(window, selector: str) -> str:
    return " ".join(window.run(f"document.querySelector({json.dumps(selector)}).innerText").split())


def test_pointing_shows_the_sentence(window, page):
    show(window, page)
    (bank, _), sentences = data_of(page)["words"], data_of(page)["sentences"]
    for k in range(7):
        window.point(*place(window, k))
        window.wait("tip.classList.contains('shown')")
        assert (
            shown(window, "#tip") == sentences[bank["sentence"][k]]
            and shown(window, "#tip mark") == "bank"
        )
    window.point(600, 40)
    window.wait("!tip.classList.contains('shown')")


def test_clicking_shows_the_nearest_by_layer(window, page):
    show(window, page)
    (bank, _), sentences = data_of(page)["words"], data_of(page)["sentences"]
    window.point(*place(window, 1), click=True)
    assert LINES[1] in shown(window, "#chosen")
    lists = window.run(
        "[...document.querySelectorAll('#panel ol')]"
        ".map((ol) => [...ol.children].map((li) => li.innerText))"
    )
    for layer, items in zip(bank["layers"], lists, strict=True):
        assert len(items) == len(layer["neighbours"][1])
        for item, k, cosine in zip(items, layer["neighbours"][1], layer["cosines"][1], strict=True):
            number, text = item.split(maxsplit=1)
            assert float(number) == pytest.approx(cosine, abs=0.006)
            assert " ".join(text.split()).strip(" …") in sentences[bank["sentence"][k]]
    window.click("#panel ol button")  # the nearest: it is looked at in turn
    assert sentences[bank["sentence"][bank["layers"][0]["neighbours"][1][0]]] in shown(
        window, "#chosen"
    )
    window.click("#close")
    assert window.run("selected") == -1 and "6 occurrences" not in shown(window, "#panel")
    assert "7 occurrences" in shown(window, "#panel")


def test_the_keyboard_stays_where_it_was(window, page):
    show(window, page)
    for where in ("#layers", "#words"):
        button = f"document.querySelector('{where} button:nth-child(2)')"
        window.run(f"({button}.focus(), {button}.click())")
        assert window.run(f"document.activeElement === {button}"), where


def test_layers_words_and_languages_are_switched(window, page):
    show(window, page)
    before = place(window, 0), place(window, 4)
    window.click("#layers button:first-child")
    window.wait("points.every((x, i) => x === word.layers[0].points[i])")
    assert (place(window, 0), place(window, 4)) != before
    window.click("#words button:nth-child(2)")
    window.point(*place(window, 0), click=True)
    assert shown(window, "#chosen").startswith("很红的苹果很甜")
    assert shown(window, "h1") == "Words in context" and "Layer 1" in shown(window, "#layers")
    window.click("#language")
    assert shown(window, "h1") == "语境中的词" and "第 1 层" in shown(window, "#layers")
    assert shown(window, "#chosen").startswith("很红的苹果很甜") and window.run(
        "document.title"
    ).startswith("苹果")
    missing = "Object.keys(TEXTS.en).filter((key) => typeof TEXTS.en[key] !== typeof TEXTS.zh[key])"
    assert window.run(missing) == []


def test_sentences_are_sought(window, page):
    show(window, page)
    window.click("#search input")
    window.call("Input.insertText", text="MONEY")
    assert shown(window, "#search output") == "3 / 7"
    assert window.run("matches.map((one, k) => one ? k : -1).filter((k) => k >= 0)") == [2, 3, 6]
    window.run("canvas.focus()")
    for _ in range(2):  # arrow keys go through what was found
        window.press("ArrowRight")
    assert window.run("selected") == 3
    window.click("#search input")
    window.call("Input.insertText", text="?")
    window.run("canvas.focus()")
    for key in ("Escape", "ArrowLeft"):  # nothing was found
        window.press(key)
    assert window.run("selected") == -1


def test_the_wheel_zooms_and_dragging_moves(window, page):
    show(window, page)
    x, y = place(window, 2)
    window.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-600)
    window.wait("view.zoom > 2")
    assert place(window, 2) == pytest.approx([x, y], abs=1)
    window.call(
        "Input.dispatchMouseEvent",
        type="mousePressed",
        x=x,
        y=y,
        button="left",
        buttons=1,
        clickCount=1,
    )
    window.call(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + 3, y=y + 4, button="left", buttons=1
    )
    window.call(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + 30, y=y + 40, button="left", buttons=1
    )
    window.call(
        "Input.dispatchMouseEvent",
        type="mouseReleased",
        x=x + 30,
        y=y + 40,
        button="left",
        clickCount=1,
    )
    assert window.run("selected") == -1 and place(window, 2) != pytest.approx([x, y], abs=1)
    window.click("#reset")
    assert place(window, 2) == pytest.approx([x, y], abs=0.01)


def test_on_a_telephone_a_tap_selects_and_nothing_is_wider_than_the_screen(window, page):
    window.resize(360, 740, touch=True)
    show(window, page, language="zh")
    window.tap(*place(window, 0))
    window.wait("selected === 0")
    assert LINES[0] in shown(window, "#chosen")
    assert window.run("document.documentElement.scrollWidth") <= 360
    window.run("document.querySelector('#panel ol:last-child li:last-child button').click()")
    chosen = "document.querySelector('#chosen').getBoundingClientRect().top"
    assert window.run(
        f"{chosen} >= canvas.getBoundingClientRect().bottom && {chosen} < innerHeight"
    )


def test_five_thousand_occurrences(window, tmp_path):
    write_page(tmp_path / "page.html", [random_word("bank", 5000)], [["a", "bank"]], {"bank": ()})
    show(window, tmp_path / "page.html")
    window.point(*place(window, 4321))
    window.wait("tip.classList.contains('shown')")
    window.click("#layers button:first-child")
    window.wait("points.every((x, i) => x === word.layers[0].points[i])")
    window.point(*place(window, 4321), click=True)
    assert window.run("selected") >= 0 and "has bank too" in shown(window, "#chosen")


def test_a_sense_is_chosen_in_the_legend(window, tmp_path):
    write_page(
        tmp_path / "page.html", [random_word("plant", 9, senses=3)], [["a", "plant"]], {"plant": ()}
    )
    show(window, tmp_path / "page.html")
    window.click("#legend button:nth-child(2)")
    assert window.run("matches.filter(Boolean).length") == 3
    for k in range(9):
        window.point(*place(window, k), click=True)
        assert window.run("selected < 0 || word.sense[selected] === 1")


def test_the_page_opens_on_the_largest_improvement_over_layer_0(window, tmp_path):
    words = [
        random_word("aaa", 20, senses=2),
        grouped_word("bank", 20),
        random_word("zzz", 20, senses=2),
    ]
    write_page(tmp_path / "page.html", words, [["a", "bank"]], {word.text: () for word in words})
    show(window, tmp_path / "page.html")
    assert window.run("[word.text, data.layers[layer]]") == ["bank", 2]
    assert "LSTM 2 of 2" in shown(window, "#explanation") and "no context" in shown(
        window, "#panel"
    )


def test_the_picture_is_saved_as_svg(window, page, tmp_path):
    show(window, page)
    window.point(*place(window, 1), click=True)
    window.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    window.click("#save")
    runs.wait_until((tmp_path / "bank-2.svg").exists, window.process)
    picture = ElementTree.parse(tmp_path / "bank-2.svg").getroot()
    text = " ".join(picture.itertext())
    assert "bank · Layer 2 · PCA" in text and all(
        line in text for line in (LINES[0], LINES[1], LINES[5])
    )
    count = {
        tag: len(picture.findall(f"{{http://www.w3.org/2000/svg}}{tag}"))
        for tag in ("line", "circle")
    }
    assert count == {"line": 6, "circle": 7 + 1 + window.run("word.senses.length")}


def test_the_theme_follows_the_system(window, page):
    background = "getComputedStyle(document.body).color"
    show(window, page)
    light = window.run(background)
    window.prefer("dark")
    window.wait("document.documentElement.classList.contains('dark')")
    assert window.run(background) != light and window.run("theme.senses") == window.run(
        "data.colours.dark"
    )
    window.prefer("light")
    window.wait("!document.documentElement.classList.contains('dark')")
    assert window.run(background) == light


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_placeholder_fits_a_phone(window, page, language):
    window.resize(320, 740, touch=True)
    show(window, page, language=language)
    window.run("context.font = getComputedStyle(find('input')).font")
    assert window.run(
        "context.measureText(find('input').placeholder).width < find('input').clientWidth"
    )
    assert window.run("document.documentElement.scrollWidth") <= 320


def test_key_words_are_rare_in_the_corpus_and_frequent_beside_the_word():
    sentences = [
        "the fish in the river bank",
        "the river by the bank",
        "the robber in the bank .",
        "a robber by the bank",
    ]
    background = [*sentences, *["the man in the house by the sea ."] * 20]
    found = [
        occurrences.Occurrence(tuple(text.split()), text.split().index("bank"))
        for text in sentences
    ]
    word = occurrences.Word("bank", 4, 4, found, 0)
    found = keywords(word, Frequencies([text.split() for text in background]))
    assert (
        found[0] == "fish river"
        and "river" in found[1]
        and "robber" in found[2]
        and "robber" in found[3]
    )

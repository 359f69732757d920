"""A sentence in CoNLL-U with all that a line may have, and a small treebank."""

from pathlib import Path

WHOLE = """\
# sent_id = 1
# text = Vámonos al mar azul.
1-2	Vámonos	_	_	_	_	_	_	_	_
1	Vamos	ir	VERB	_	Mood=Imp	0	root	_	_
2	nos	nosotros	PRON	_	Case=Acc	1	obj	_	_
3-4	al	_	_	_	_	_	_	_	_
3	a	a	ADP	_	_	5	case	_	_
4	el	el	DET	_	Definite=Def	5	det	_	_
5	mar azul	mar	NOUN	_	_	1	obl:arg	_	SpaceAfter=No
5.1	va	ir	VERB	_	_	_	_	1:conj	_
6	.	.	PUNCT	_	_	1	punct	_	_

"""


SENTENCES = {
    "the dog sleeps": ("2 3 0", "det nsubj root"),
    "a cat sees the dog": ("2 3 0 5 3", "det nsubj root det obj"),
}


def conllu(sentence: str, heads: str, labels: str) -> str:
    rows = enumerate(zip(sentence.split(), heads.split(), labels.split(), strict=True), 1)
    return (
        "".join(
            f"{k}\t{word}\t_\t{word[0].upper()}\t_\t_\t{h}\t{label}\t_\t_\n"
            for k, (word, h, label) in rows
        )
        + "\n"
    )


def write_treebank(path: Path) -> Path:
    path.write_text(
        "".join(conllu(text, *tree) for text, tree in SENTENCES.items()) * 4, encoding="utf-8"
    )
    return path

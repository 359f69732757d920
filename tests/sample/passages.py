"""Chinese passages with questions, in SQuAD's JSON: who lives where, works, travels, eats, learns
and buys what.

Every passage states two or three facts about each of three or four people, often with "he" or
"she", and other people do the same things elsewhere. So an answer depends on both person and deed,
and the name may be two sentences away. Words with a ! occur only in dev passages.
"""

import random
from collections.abc import Iterator, Sequence

NAMES = {
    "他": "小明 小刚 小军 阿强 王建国 李志强 张和平 刘建国 陈志强 !大伟 !欧阳俊峰",
    "她": "小红 小丽 小芳 阿美 王晓梅 李丽华 张春燕 刘晓梅 陈春燕 !阿珍 !欧阳雅婷",
}
WORDS = {
    "地": "北京 上海 杭州 云南 四川 !敦煌 !拉萨",
    "单位": "医院 银行 大学 公司 饭店 电视台 !博物馆",
    "国": "法国 日本 美国 英国 德国 !意大利",
    "时": "去年 昨天 上周 前天 三月五日 五月十日 十月二十日 !十二月三日",
    "菜": "面条 饺子 豆腐 苹果 鱼 小米粥 !火锅",
    "校": "北京大学 上海大学 云南大学 四川大学 !西藏大学",
    "语": "法语 日语 英语 德语 !意大利语",
    "数": "两 五 十 二十 三十 五十 !八十",
    "物": "一本书 一幅画 一部手机 一辆车 一杯茶 两斤苹果 !一把伞",
}
DEEDS = [  # statement, and two questions with answers
    ("{人}住在{地}。", ("{人}住在哪里？", "{地}"), ("谁住在{地}？", "{人}")),
    ("{人}在{单位}工作。", ("{人}在哪里工作？", "{单位}"), ("谁在{单位}工作？", "{人}")),
    (
        "{人}{时}去{国}旅行了。",
        ("{人}什么时候去{国}旅行？", "{时}"),
        ("{人}{时}去了哪个国家？", "{国}"),
    ),
    ("{人}最喜欢吃{菜}。", ("{人}喜欢吃什么？", "{菜}"), ("谁喜欢吃{菜}？", "{人}")),
    ("{人}正在{校}学习{语}。", ("{人}在哪个学校学习？", "{校}"), ("{人}在学习什么？", "{语}")),
    (
        "{人}花{数}块钱买了{物}。",
        ("{人}买了什么？", "{物}"),
        ("{人}买{物}花了多少钱？", "{数}块钱"),
    ),
]
QUESTIONS = 4  # per passage


def shuffled(items: Sequence, rng: random.Random) -> list:
    """The items in random order.

    Uses only `rng.random()`, whose numbers Python promises not to change.
    """
    return [items[k] for _, k in sorted((rng.random(), k) for k in range(len(items)))]


def choose(text: str, held_out: bool, rng: random.Random) -> list[str]:
    """Words in random order, those with a ! only if `held_out`."""
    return shuffled(
        [word.removeprefix("!") for word in text.split() if held_out or not word.startswith("!")],
        rng,
    )


def passages(n: int, held_out: bool, rng: random.Random) -> Iterator[dict]:
    """Yield n paragraphs of SQuAD's JSON."""
    for number in range(1, n + 1):
        words = {kind: choose(text, held_out, rng) for kind, text in WORDS.items()}
        names = {pronoun: choose(text, held_out, rng) for pronoun, text in NAMES.items()}
        text, asked = "", []
        for _ in range(3 + (rng.random() < 0.5)):
            pronoun = "他" if rng.random() < 0.5 else "她"
            name = names[pronoun].pop()
            for place, (told, *questions) in enumerate(
                shuffled(DEEDS, rng)[: 2 + (rng.random() < 0.5)]
            ):
                found = {
                    kind: chosen.pop() for kind, chosen in words.items() if f"{{{kind}}}" in told
                }
                begin = len(text)
                text += told.format(人=pronoun if place and rng.random() < 0.6 else name, **found)
                for question, answer in questions:
                    answer = answer.format(人=name, **found)
                    at = text.find(answer, begin) if answer in text[begin:] else text.rfind(answer)
                    asked.append(
                        (question.format(人=name, **found), {"text": answer, "answer_start": at})
                    )
        chosen = shuffled(asked, rng)[:QUESTIONS]
        prefix = f"{'dev' if held_out else 'train'}-{number}"
        qas = [
            {"id": f"{prefix}-{k}", "question": question, "answers": [answer]}
            for k, (question, answer) in enumerate(chosen, 1)
        ]
        yield {"context": text, "qas": qas}

"""Tagger("zh-lac") on forty sentences of all kinds, which docs/chinese.md shows."""

import pytest
from project import PROJECT

from elmo_tasks import Tagger

SENTENCES = [
    ("公司去年卖出1,000.5万台手机。", "公司/n 去年/TIME 卖出/v 1,000.5万台/m 手机/n 。/w"),
    ("利润增长３０％，成本下降５％。", "利润/n 增长/v ３０％/m ，/w 成本/n 下降/v ５％/m 。/w"),
    ("3/4的人同意这个办法。", "3/4/m 的/u 人/n 同意/v 这个/r 办法/n 。/w"),
    ("请拨打电话010-12345678预约。", "请/v 拨打/v 电话/n 010-12345678/m 预约/v 。/w"),
    (
        "他2019-11-29到上海，10:30开会。",
        "他/r 2019-11-29/TIME 到/v 上海/LOC ，/w 10:30/TIME 开会/v 。/w",
    ),
    ("我们以3:2赢了比赛。", "我们/r 以/p 3:2/m 赢/v 了/u 比赛/vn 。/w"),
    ("我在GitHub上看到一个项目。", "我/r 在/p GitHub/nz 上/f 看到/v 一个/m 项目/n 。/w"),
    ("COVID-19疫情期间学校停课。", "COVID-19/nz 疫情/n 期间/f 学校/n 停课/v 。/w"),
    ("iPhone 13 Pro Max卖8999元。", "iPhone/nz 13/m Pro/nz Max/nz 卖/v 8999元/m 。/w"),
    ("你会用Node.js和C++吗？", "你/r 会/v 用/v Node.js/nz 和/c C++/nz 吗/xc ？/w"),
    ("学校买了一台3D打印机。", "学校/n 买/v 了/u 一台/m 3D/n 打印机/n 。/w"),
    ("A股昨天上涨2.5%。", "A股/nz 昨天/TIME 上涨/v 2.5%/m 。/w"),
    (
        "他买了一件T恤，下载了K歌软件。",
        "他/r 买/v 了/u 一件/m T恤/n ，/w 下载/v 了/u K歌/n 软件/n 。/w",
    ),
    (
        "详情见https://example.com/news?id=12。",
        "详情/n 见/v https://example.com/news?id=12/xc 。/w",
    ),
    ("我的邮箱是zhang.san@example.com。", "我/r 的/u 邮箱/n 是/v zhang.san@example.com/xc 。/w"),
    (
        "公司位于北京市海淀区中关村大街27号。",
        "公司/n 位于/v 北京市/LOC 海淀区/LOC 中关村大街27号/LOC 。/w",
    ),
    (
        "#周末愉快# @王小明 你也来吃饭吗？",
        "#/w 周末/TIME 愉快/a #/w @/w 王小明/PER 你/r 也/d 来/v 吃饭/v 吗/xc ？/w",
    ),
    ("我今天特别开心😂👍🏽", "我/r 今天/TIME 特别/d 开心/a 😂/w 👍🏽/w"),
    (
        "全家👨\u200d👩\u200d👧都去了日本🇯🇵。",
        "全家/n 👨\u200d👩\u200d👧/w 都/d 去/v 了/u 日本/LOC 🇯🇵/w 。/w",
    ),
    ("ＡＢＣ公司２０２０年成立。", "ＡＢＣ公司/ORG ２０２０年/TIME 成立/v 。/w"),
    ("他买了一部ｉＰｈｏｎｅ６手机。", "他/r 买/v 了/u 一部/m ｉＰｈｏｎｅ６/nz 手机/n 。/w"),
    ("今天下雨。\n明天放假。", "今天/TIME 下雨/v 。/w 明天/TIME 放假/v 。/w"),
    (
        "姓名：张伟\n电话：13800138000\n籍贯：上海",
        "姓名/n ：/w 张伟/PER 电话/n ：/w 13800138000/m 籍贯/n ：/w 上海/LOC",
    ),
    ("《三体》是刘慈欣写的小说。", "《/w 三体/nw 》/w 是/v 刘慈欣/PER 写/v 的/u 小说/n 。/w"),
    (
        "他说：“明天去上海。”然后就走了。",
        "他/r 说/v ：/w “/w 明天/TIME 去/v 上海/LOC 。/w ”/w 然后/c 就/d 走/v 了/xc 。/w",
    ),
    (
        "周杰伦唱了《七里香》和《青花瓷》。",
        "周杰伦/PER 唱/v 了/u 《/w 七里香/nw 》/w 和/c 《/w 青花瓷/nw 》/w 。/w",
    ),
    ("乔治·华盛顿出生于1732年2月22日。", "乔治·华盛顿/PER 出生于/v 1732年2月22日/TIME 。/w"),
    (
        "美国总统特朗普在白宫会见了马克龙。",
        "美国/LOC 总统/n 特朗普/PER 在/p 白宫/LOC 会见/v 了/u 马克龙/PER 。/w",
    ),
    (
        "蔡英文總統今天在臺北會見了日本議員。",
        "蔡英文/PER 總統/n 今天/TIME 在/p 臺北/LOC 會見/v 了/u 日本/LOC 議員/n 。/w",
    ),
    ("請問這裡有賣臺灣的茶葉嗎？", "請問/v 這裡/r 有/v 賣/v 臺灣/LOC 的/u 茶葉/n 嗎/xc ？/w"),
    ("她在香港中文大學讀書。", "她/r 在/p 香港中文大學/ORG 讀書/v 。/w"),
    (
        "国务院总理李强昨天在北京会见了德国外长。",
        "国务院/ORG 总理/n 李强/PER 昨天/TIME 在/p 北京/LOC 会见/v 了/u 德国/LOC 外长/n 。/w",
    ),
    (
        "上半年，全国粮食产量同比增长1.2%。",
        "上半年/TIME ，/w 全国/n 粮食/n 产量/n 同比/vd 增长/v 1.2%/m 。/w",
    ),
    ("承租人应当按照合同支付租金。", "承租人/n 应当/v 按照/p 合同/n 支付/v 租金/n 。/w"),
    ("第三条规定的费用由被告承担。", "第三条/m 规定/v 的/u 费用/n 由/p 被告/n 承担/v 。/w"),
    (
        "房间比较干净，服务员态度也不错。",
        "房间/n 比较/d 干净/a ，/w 服务员/n 态度/n 也/d 不错/a 。/w",
    ),
    (
        "手机屏幕太小，电池倒是非常耐用！",
        "手机/n 屏幕/n 太/d 小/a ，/w 电池/n 倒是/d 非常/d 耐用/a ！/w",
    ),
    ("哈哈，你什么时候回家呀？", "哈哈/xc ，/w 你/r 什么时候/r 回家/v 呀/xc ？/w"),
    (
        "谢谢老师，我明天下午三点到学校。",
        "谢谢/v 老师/n ，/w 我/r 明天下午三点/TIME 到/v 学校/n 。/w",
    ),
    (
        "长江流经十一个省市，全长6300公里。",
        "长江/LOC 流经/v 十一个/m 省市/n ，/w 全长/n 6300公里/m 。/w",
    ),
]
PAGES = ["chinese.md", "chinese_zh.md"]


@pytest.fixture(scope="module")
def tagger():
    return Tagger("zh-lac", device="cpu")


@pytest.mark.parametrize(("text", "expected"), SENTENCES)
def test_words_and_tags(tagger, text, expected):
    spans = tagger.spans(text)
    assert " ".join(f"{span.text}/{span.label}" for span in spans) == expected
    for span in spans:
        assert text[span.begin : span.end] == span.text


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_show_these(page):
    lines = (PROJECT / "docs" / page).read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith("| `")]
    rows = []
    for text, expected in SENTENCES:
        text = text.replace("\n", "↵")
        rows.append(f"| `{text}` | `{expected}` |")
    assert shown[-len(rows) :] == rows

"""The quick reading of plain overrides, compared with Hydra's grammar."""

import random

import pytest

from sweeps.planning.override import NOT_PLAIN, Override, by_grammar, parsed, plain

PLAIN = [
    *("a=1", "a.b=-7", "a=0", "a=0.5", "a=-2.25", "a=null", "a=true", "a=false", "a=word", "a=a_heads_16", "a=d-1"),
    *("a=runs/x.y", "a=/tmp/x", "a=./x", "a=../x", "sweep.rows=[base,big]", "sweep.seeds=[1,2,3]", "a=[x]"),
    *("a=[1,x,0.5,null,true]", "a=x--y", "a=x..y", "a=x/", "a=x.5", "a=_", "_a=1", "a=True_"),
]
OTHERS = [
    *("a=", "a= 1", "a=1 ", "a=007", "a=1_000", "a=1e-3", "a=.5", "a=5.", "a=+1", "a=TRUE", "a=Null", "a=NaN", "a=inf"),
    *("a=-inf", "a=1,2", "a=[1, 2]", "a=[]", "a=[1,]", "a=[[1],2]", "a={b:1}", "a='x y'", 'a="x"', "+a=1", "~a", "a"),
    *("++a=1", "a@b=1", "a.=1", "a..b=1", "1a=1", "a=x=y", "a=x:y", "a=${b}", "a=größe", "a=x y", "a=f(1)", "a=x+y"),
    *(
        "a=99999999999999999999",
        "a=-0",
        "a=-0.0",
        "a=00.5",
        "a=../../x",
        "a=/",
        "a=.x",
        "a=-x",
        "a=1x",
        "a=x,y",
        "=1",
        "a-b=1",
    ),
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_override_is_read_without_hydra(text: str) -> None:
    key, _, value = text.partition("=")
    assert Override(key, plain(value)) == by_grammar(text)


@pytest.mark.parametrize("text", [*PLAIN, *OTHERS])
def test_each_override_is_read_as_hydra_reads_it(text: str) -> None:
    read, expected = parsed(text), by_grammar(text)
    assert repr(read) == repr(expected if text.isascii() else Override("a", "größe"))


def test_random_texts_are_read_as_hydra_reads_them() -> None:
    letters, chance = "ab01.-_/,[]nulltrefaseinf ", random.Random(1)
    texts = ["a=" + "".join(chance.choices(letters, k=chance.randint(1, 6))) for _ in range(600)]
    quick = [text for text in texts if plain(text[2:]) is not NOT_PLAIN]
    assert len(quick) > 50
    assert [repr(parsed(text)) for text in quick] == [repr(by_grammar(text)) for text in quick]

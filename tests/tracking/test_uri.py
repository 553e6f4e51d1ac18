"""No part of a password, a token or another secret is left in texts that others may read."""

import itertools
import random
import shlex
import string

import pytest

from tracking.uri import (
    MASK,
    code_without_secrets,
    diff_without_secrets,
    shown_tree,
    shown_words,
    without_password,
    without_passwords,
)

SCHEMES = (
    "postgresql",
    "postgresql+psycopg",
    "mysql",
    "http",
    "https",
    "sftp",
    "ftp",
    "s3",
    "simplecache::sftp",
)
HOSTS = ("host", "host:5432", "127.0.0.1:5000", "[::1]:5000", "a.b-c.org")
PATHS = ("", "/", "/db", "/db?sslmode=require", "/a/b#c", "/x@y")
AROUND = (
    "{}",
    "tracking.uri={}",
    "cannot reach {}: refused",
    "'{}'",
    '{{"uri": "{}"}}',
    "{} and {}",
)
SAFE = (
    *(
        "http://host:5000/path",
        "https://host/a@b",
        "sqlite:////runs/mlflow.db",
        "http://127.0.0.1:5000 asks me@there",
    ),
    *(
        "[bold]http://127.0.0.1:5000[/] of me@there",
        "http://[::1]:5000/a@b",
        "models:/name@alias",
        "a?b=c&d=e",
    ),
    *(
        "s3://bucket/a@b",
        "http://host:5000/#/experiments/1",
        "ask me@there about http://host:5000/path?a=b, or not",
    ),
    *(
        "'http://host:5000/path' of me@there",
        "http://host:5000, me@there",
        "https://host/x?filter=a%3Db%40c",
    ),
    *(
        "postgresql://host:5432 is down: ask me@there",
        "https://host/docs#authentication",
        "gs://bucket/x?generation=3",
    ),
    *(
        "postgresql://host:5432/db?sslmode=require",
        "s3://bucket/key?versionId=7",
        "file:///C:/x@y",
        "two:words@here",
    ),
)
ODBC = "mssql+pyodbc:///?odbc_connect="
SHOWN = {
    "postgresql://mlflow:2024#secret@db/mlflow": f"postgresql://{MASK}@db/mlflow",
    "postgresql://mlflow:2024?secret@db/mlflow": f"postgresql://{MASK}@db/mlflow",
    "http://mlflow:5000/secret@db/mlflow": f"http://{MASK}@db/mlflow",
    "redis://:2024#secret@db": f"redis://{MASK}@db",
    "postgresql://me@server:2024#secret@db/x": f"postgresql://{MASK}@db/x",
    "postgresql://us#er:secret@db/x": f"postgresql://{MASK}@db/x",
    "mysql+my_driver://me:secret@db/x": f"mysql+my_driver://{MASK}@db/x",
    "https://ghp_abc@host/x": f"https://{MASK}@host/x",
    "https://host/back#access_token=secret": f"https://host/back#access_token={MASK}",
    "https://host/x?to=postgresql%3A%2F%2Fme%3Asecret%40db&a=b": f"https://host/x?to={MASK}&a=b",
    "https://host/x?with=UID%253Dme%253BPWD%253Dsecret": f"https://host/x?with={MASK}",
    "https://host/x?with=id%3A1%3Bsig%3Dsecret": f"https://host/x?with={MASK}",
    **{
        f"https://host/x?{name}=abc%2Fdef": f"https://host/x?{name}={MASK}"
        for name in ("sig", "X-Amz-Signature")
    },
    f"{ODBC}DRIVER%3D%7BODBC+Driver%7D%3BUID%3Dme%3BPWD%3Dsecret&a=b": f"{ODBC}{MASK}&a=b",
    f"{ODBC}DRIVER={{ODBC Driver 17}};SERVER=db;UID=me;PWD={{se cr&et}}&a=b": f"{ODBC}{MASK}&a=b",
}


def secrets(size: int = 10) -> list[str]:
    """Generated passwords: URL-safe ones, and some with characters that a careless person does not
    encode."""
    drawn = random.Random(1)
    plain = string.ascii_letters + string.digits + "-_.~!$%+*,="
    careless = "@/:?#; '&"
    digits = [f"2024{mark}secret" for mark in careless if mark not in "@ "]
    random_secrets = ["".join(drawn.choices(plain, k=drawn.randint(6, 20))) for _ in range(size)]
    return [
        *random_secrets,
        *digits,
        *(f"Se{mark}cr3t" for mark in careless),
        "123456",
        "123/abc",
        "p@ss@word",
        "50%40%2F",
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_part_of_a_password_is_left(scheme: str) -> None:
    hosts = itertools.cycle(HOSTS)
    for secret, path, around in itertools.product(secrets(), PATHS, AROUND):
        host = next(hosts)
        masked = without_password(
            around.replace("{}", f"{scheme}://somebody:{secret}@{host}{path}")
        )
        assert f"{MASK}@{host}" in masked, secret
        assert not any(part in masked for part in (secret, secret[-3:], "somebody")), secret


@pytest.mark.parametrize(
    "name", ["password", "sslpassword", "PWD", "access_token", "token", "api_key", "my_secret"]
)
def test_no_secret_of_a_query_is_left(name: str) -> None:
    # & ends a value, and a space ends a URI
    plain_secrets = [secret for secret in secrets() if not {"&", " "} & {*secret}]
    for secret, prefix in itertools.product(
        plain_secrets, ("sqlite:////a.db?", "https://host/x?a=b&", "s3://b/?X-Amz-Date=1&")
    ):
        assert (
            without_password(f"{prefix}{name}={secret}&mode=ro") == f"{prefix}{name}={MASK}&mode=ro"
        )


@pytest.mark.parametrize(("address", "shown"), SHOWN.items())
def test_secrets_in_every_form_that_drivers_accept_are_hidden(address: str, shown: str) -> None:
    for around in AROUND[:1] if " " in address else AROUND:
        if "{}:" not in around:  # a colon after a query may belong to its value
            assert without_password(around.replace("{}", address)) == around.replace("{}", shown)


@pytest.mark.parametrize("text", SAFE)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert without_password(text) == text


def test_hiding_twice_changes_nothing() -> None:
    for secret in secrets():
        once = without_password(f"postgresql://me:{secret}@host/db?password={secret}")
        assert without_password(once) == once
        assert without_password(once, "") == without_password(
            f"postgresql://me:x@host/db?password={secret}", ""
        )


def test_trees_and_command_lines_keep_their_form() -> None:
    tree = {"login": {"api_key": "abc def", "tokens": 3, "token": None, "secret": {"a": 1}}}
    assert shown_tree(tree) == {
        "login": {"api_key": MASK, "tokens": 3, "token": None, "secret": MASK}
    }
    nested = {"a": {"b": ["x", "http://me:pw@host"]}, "c": None, "d": 3, "e": True}
    assert without_passwords(nested) == {
        "a": {"b": ["x", f"http://{MASK}@host"]},
        "c": None,
        "d": 3,
        "e": True,
    }
    words = [
        "sweep",
        "model.api_key=abc def",
        "login.PASSWORD={a: b}",
        "train.tokens_per_batch=40",
        "--token",
    ]
    assert shown_words(words) == [
        "sweep",
        f"model.api_key={MASK}",
        f"login.PASSWORD={MASK}",
        *words[3:],
    ]
    typed = shlex.join(
        map(
            without_password,
            ["tracking.uri='postgresql://me:pw@host/db?password=pw'", "model.d=64"],
        )
    )
    assert shlex.split(typed) == [
        f"tracking.uri='postgresql://{MASK}@host/db?password={MASK}'",
        "model.d=64",
    ]


def test_code_stays_code_but_for_text_in_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "of-the-environment")
    code = "token = tokens[i]; password: str; use(api_key=key, token=None)  # of-the-environment\n"
    assert code_without_secrets(code) == code.replace("of-the-environment", MASK)
    code = (
        'api_key: str = "abc def"; token=f"abc"; {"password": \'abc\'}; '
        'my_secret = os.getenv("abc")'
    )
    assert "abc" not in code_without_secrets(code)
    assert code_without_secrets("postgresql://me:pw@host") == f"postgresql://{MASK}@host"


def test_a_diff_is_cleaned_by_the_kind_of_each_file() -> None:
    python = "diff --git a/a.py b/a.py\n+token = tokens[i]\n"
    yaml_diff = "diff --git a/a.yaml b/a.yaml\n+api_key: abc\n"
    for parts in ((python, yaml_diff), (yaml_diff, python)):
        assert diff_without_secrets("".join(parts)) == "".join(parts).replace("abc", MASK)

"""Addresses without their secrets: no part of a password is shown, whatever its characters."""

import itertools
import random
import shlex
import string

import pytest

from tracking.uri import (
    MARK,
    code_without_secrets,
    diff_without_secrets,
    shown_tree,
    shown_words,
    without_password,
    without_passwords,
)

SCHEMES = ("postgresql", "postgresql+psycopg", "mysql", "http", "https", "sftp", "ftp", "s3", "simplecache::sftp")
HOSTS = ("host", "host:5432", "127.0.0.1:5000", "[::1]:5000", "a.b-c.org")
PATHS = ("", "/", "/db", "/db?sslmode=require", "/a/b#c", "/x@y")
AROUND = ("{}", "tracking.uri={}", "cannot reach {}: refused", "'{}'", '{{"uri": "{}"}}', "{} and {}")
SAFE = (
    *("http://host:5000/path", "https://host/a@b", "sqlite:////runs/mlflow.db", "http://127.0.0.1:5000 asks me@there"),
    *("[bold]http://127.0.0.1:5000[/] of me@there", "http://[::1]:5000/a@b", "models:/name@alias", "a?b=c&d=e"),
    *("s3://bucket/a@b", "http://host:5000/#/experiments/1", "ask me@there about http://host:5000/path?a=b, or not"),
    *("'http://host:5000/path' of me@there", "http://host:5000, me@there", "https://host/x?filter=a%3Db%40c"),
    *("postgresql://host:5432 is down: ask me@there", "https://host/docs#authentication", "gs://bucket/x?generation=3"),
    *("postgresql://host:5432/db?sslmode=require", "s3://bucket/key?versionId=7", "file:///C:/x@y", "two:words@here"),
)


def secrets(size: int) -> list[str]:
    """Generated passwords: URL-safe ones, and some with characters that a careless person does not encode."""
    drawn = random.Random(1)
    plain, careless = string.ascii_letters + string.digits + "-_.~!$%+*,=", "@/:?#; '&"
    digits = [f"2024{mark}secret" for mark in careless if mark not in "@ "]
    made = ["".join(drawn.choices(plain, k=drawn.randint(6, 20))) for _ in range(size)]
    return [*made, *digits, *(f"Se{mark}cr3t" for mark in careless), "123456", "123/abc", "p@ss@word", "50%40%2F"]


@pytest.mark.parametrize(("scheme", "host", "path"), [*itertools.product(SCHEMES, HOSTS, PATHS)])
def test_no_part_of_a_password_is_left(scheme: str, host: str, path: str) -> None:
    for secret in secrets(10):
        for around in AROUND:
            shown = without_password(around.replace("{}", f"{scheme}://somebody:{secret}@{host}{path}"))
            assert secret not in shown
            assert secret[-3:] not in shown
            assert "somebody" not in shown
            assert f"{MARK}@{host}" in shown


@pytest.mark.parametrize("name", ["password", "sslpassword", "PWD", "access_token", "token", "api_key", "my_secret"])
@pytest.mark.parametrize("before", ["sqlite:////runs/a.db?", "https://host/x?a=b&", "s3://bucket/?X-Amz-Date=1&"])
def test_no_secret_of_a_query_is_left(name: str, before: str) -> None:
    for secret in secrets(10):
        if "&" in secret or " " in secret:
            continue  # & ends a value, and a space ends a URI
        shown = without_password(f"{before}{name}={secret}&mode=ro")
        assert shown == f"{before}{name}={MARK}&mode=ro"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://mlflow:2024#secret@db/mlflow", f"postgresql://{MARK}@db/mlflow"),
        ("postgresql://mlflow:2024?secret@db/mlflow", f"postgresql://{MARK}@db/mlflow"),
        ("http://mlflow:5000/secret@db/mlflow", f"http://{MARK}@db/mlflow"),
        ("redis://:2024#secret@db", f"redis://{MARK}@db"),
        ("postgresql://me@server:2024#secret@db/x", f"postgresql://{MARK}@db/x"),
        ("postgresql://us#er:secret@db/x", f"postgresql://{MARK}@db/x"),
        ("mysql+my_driver://me:secret@db/x", f"mysql+my_driver://{MARK}@db/x"),
        ("https://host/back#access_token=secret", f"https://host/back#access_token={MARK}"),
        ("https://host/x?to=postgresql%3A%2F%2Fme%3Asecret%40db&a=b", f"https://host/x?to={MARK}&a=b"),
        ("https://host/x?with=UID%253Dme%253BPWD%253Dsecret", f"https://host/x?with={MARK}"),
    ],
)
def test_secrets_in_every_form_that_drivers_accept_are_hidden(address: str, shown: str) -> None:
    assert without_password(address) == shown
    for around in AROUND:
        if "{}:" not in around:  # a colon after a query may belong to its value
            assert without_password(around.replace("{}", address)) == around.replace("{}", shown)


@pytest.mark.parametrize(
    "settings",
    [
        "DRIVER%3D%7BODBC+Driver+17%7D%3BSERVER%3Ddb%3BUID%3Dme%3BPWD%3Dsecret",
        "DRIVER={ODBC Driver 17};SERVER=db;UID=me;PWD={se cr&et}",
        "DSN%3Dsecret",
    ],
)
def test_odbc_settings_are_hidden_completely(settings: str) -> None:
    address = f"mssql+pyodbc:///?odbc_connect={settings}&autocommit=true"
    assert without_password(address) == f"mssql+pyodbc:///?odbc_connect={MARK}&autocommit=true"


@pytest.mark.parametrize("name", ["sig", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token"])
def test_a_signed_address_loses_its_signature(name: str) -> None:
    assert without_password(f"https://host/x?{name}=abc%2Fdef") == f"https://host/x?{name}={MARK}"


@pytest.mark.parametrize("text", SAFE)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert without_password(text) == text


def test_a_token_without_a_user_is_removed() -> None:
    assert without_password("https://ghp_abc@host/x") == f"https://{MARK}@host/x"


def test_hiding_twice_changes_nothing() -> None:
    for secret in secrets(10):
        once = without_password(f"postgresql://me:{secret}@host/db?password={secret}")
        assert without_password(once) == once
        assert without_password(once, "") == without_password(f"postgresql://me:x@host/db?password={secret}", "")


def test_a_command_line_can_still_be_split() -> None:
    words = ["allelse", "tracking.uri='postgresql://me:pw@host/db?password=pw'", "model.d_model=64"]
    shown = shlex.join(map(without_password, words))
    address = f"postgresql://{MARK}@host/db?password={MARK}"
    assert shlex.split(shown) == ["allelse", f"tracking.uri='{address}'", "model.d_model=64"]


def test_of_a_key_that_names_a_secret_no_value_is_shown() -> None:
    tree = {"login": {"api_key": "abc def", "tokens": 3, "token": None, "secret": {"a": 1}}}
    assert shown_tree(tree) == {"login": {"api_key": MARK, "tokens": 3, "token": None, "secret": MARK}}


def test_of_a_word_with_a_secret_key_nothing_is_shown_but_the_key() -> None:
    words = ["sweep", "model.api_key=abc def", "login.PASSWORD={a: b}", "train.tokens_per_batch=40", "--token"]
    assert shown_words(words) == ["sweep", f"model.api_key={MARK}", f"login.PASSWORD={MARK}", *words[3:]]


def test_code_stays_code_but_for_text_in_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "of-the-environment")
    code = "token = tokens[i]; password: str; use(api_key=key, token=None)  # of-the-environment\n"
    assert code_without_secrets(code) == code.replace("of-the-environment", MARK)
    code = 'api_key: str = "abc def"; token=f"abc"; {"password": \'abc\'}; my_secret = os.getenv("abc")'
    assert "abc" not in code_without_secrets(code)
    assert code_without_secrets("postgresql://me:pw@host") == f"postgresql://{MARK}@host"


def test_a_diff_is_cleaned_by_the_kind_of_each_file() -> None:
    python, other = "diff --git a/a.py b/a.py\n+token = tokens[i]\n", "diff --git a/a.yaml b/a.yaml\n+api_key: abc\n"
    for parts in ((python, other), (other, python)):
        assert diff_without_secrets("".join(parts)) == "".join(parts).replace("abc", MARK)


def test_nested_data_is_cleaned_throughout() -> None:
    tree = {"a": {"b": ["x", "http://me:pw@host"]}, "c": None, "d": 3, "e": True}
    assert without_passwords(tree) == {"a": {"b": ["x", f"http://{MARK}@host"]}, "c": None, "d": 3, "e": True}

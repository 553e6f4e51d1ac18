"""What of an address others may read: no password, whatever it looks like."""

import itertools
import random
import shlex
import string

import pytest

from tracking.uri import MARK, without_password, without_passwords

SCHEMES = ("postgresql", "postgresql+psycopg", "mysql", "http", "https", "sftp", "ftp", "s3", "simplecache::sftp")
HOSTS = ("host", "host:5432", "127.0.0.1:5000", "[::1]:5000", "a.b-c.org")
PATHS = ("", "/", "/db", "/db?sslmode=require", "/a/b#c", "/x@y")
AROUND = ("{}", "tracking.uri={}", "cannot reach {}: refused", "'{}'", '{{"uri": "{}"}}', "{} and {}")
SAFE = (
    *("http://host:5000/a@b", "https://host/a@b", "sqlite:////runs/mlflow.db", "http://127.0.0.1:5000 asks me@there"),
    *("[bold]http://127.0.0.1:5000[/] of me@there", "http://[::1]:5000/a@b", "models:/name@alias", "a?b=c&d=e"),
    *("postgresql://host:5432/db?sslmode=require", "s3://bucket/key?versionId=7", "file:///C:/x@y", "two:words@here"),
)


def secrets(size: int) -> list[str]:
    """Passwords as generators make them: URL-safe ones, and some that a careless person does not encode."""
    drawn = random.Random(1)
    plain, careless = string.ascii_letters + string.digits + "-_.~!$%+*,=", "@/:?#; '&"
    made = ["".join(drawn.choices(plain, k=drawn.randint(6, 20))) for _ in range(size)]
    return [*made, *(f"Se{mark}cr3t" for mark in careless), "123456", "123/abc", "p@ss@word", "50%40%2F"]


@pytest.mark.parametrize(("scheme", "host", "path"), [*itertools.product(SCHEMES, HOSTS, PATHS)])
def test_no_part_of_a_password_is_left(scheme: str, host: str, path: str) -> None:
    for secret in secrets(10):
        if scheme.startswith("http") and secret == "123/abc":
            continue  # http://user:123/… is a port and a path
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
            continue  # the first ends a value, the second a URI
        shown = without_password(f"{before}{name}={secret}&mode=ro")
        assert shown == f"{before}{name}={MARK}&mode=ro"


@pytest.mark.parametrize("name", ["sig", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token"])
def test_a_signed_address_loses_its_signature(name: str) -> None:
    assert without_password(f"https://host/x?{name}=abc%2Fdef") == f"https://host/x?{name}={MARK}"


@pytest.mark.parametrize("text", SAFE)
def test_what_holds_no_secret_stays(text: str) -> None:
    assert without_password(text) == text


def test_a_token_without_a_user_is_taken_out() -> None:
    assert without_password("https://ghp_abc@host/x") == f"https://{MARK}@host/x"


def test_twice_is_once() -> None:
    for secret in secrets(10):
        once = without_password(f"postgresql://me:{secret}@host/db?password={secret}")
        assert without_password(once) == once
        assert without_password(once, "") == without_password(f"postgresql://me:x@host/db?password={secret}", "")


def test_a_command_line_can_be_split_again() -> None:
    words = ["ablate", "tracking.uri='postgresql://me:pw@host/db?password=pw'", "model.d_model=64"]
    shown = shlex.join(map(without_password, words))
    address = f"postgresql://{MARK}@host/db?password={MARK}"
    assert shlex.split(shown) == ["ablate", f"tracking.uri='{address}'", "model.d_model=64"]


def test_nested_data_is_cleaned_throughout() -> None:
    tree = {"a": {"b": ["x", "http://me:pw@host"]}, "c": None, "d": 3, "e": True}
    assert without_passwords(tree) == {"a": {"b": ["x", f"http://{MARK}@host"]}, "c": None, "d": 3, "e": True}

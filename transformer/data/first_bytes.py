"""What the first bytes of a file say: how it is compressed, or why it is not text."""

from importlib.util import find_spec
from typing import NamedTuple

MOST = 4096
"""How many first bytes are looked at."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PLAIN = "must be UTF-8 text, plain or compressed by gzip, bzip2 or xz"

BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # how the first block of a file begins, or the end of an empty one

UNPACK = "decompress it first; gzip, bzip2 and xz are read as they are"
COMPRESSED = (
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZIP\x01", "lzip"),
    (b"\x1f\x9d", "compress"),
)
UNREAD = (
    (0, b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
    (0, b"Rar!\x1a\x07", "is a rar archive"),
    (257, b"ustar", "is a tar archive"),
    (0, b"PK\x05\x06", "is an empty zip archive"),
    (0, b"%PDF-", "is a PDF document"),
    (0, b"{\\rtf", "is an RTF document"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an Office document"),
    (0, b"PAR1\x15", "is a Parquet file"),
    (0, b"ARROW1\x00\x00", "is an Arrow file"),
    (0, b"\x93NUMPY", "is a NumPy array"),
    (0, b"SQLite format 3\x00", "is an SQLite database"),
    (0, b"\x89HDF\r\n", "is an HDF5 file"),
    (0, b"\x89PNG\r\n", "is a PNG image"),
    (0, b"\xff\xd8\xff", "is a JPEG image"),
    (0, b"GIF8", "is a GIF image"),
    (0, b"\x80\x04\x95", "is a pickle"),
    (0, b"\x80\x05\x95", "is a pickle"),
    (0, b"\x7fELF", "is a program"),
)
"""(offset, bytes, fault) of formats that are named and refused."""
ENCODINGS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
NEARLY_ALL, SOME = 0.9, 0.4  # shares of zero bytes; text that is not ASCII has fewer
MARKUP = {b"<!doctype html": "HTML", b"<html": "HTML", b"<?xml ": "XML", b"<srcset ": "SGML", b"<refset ": "SGML"}
LFS = b"version https://git-lfs.github.com/spec/"


class NotText(NamedTuple):
    """Why a file is refused, and what to do."""

    fault: str
    fix: str


def compression(head: bytes) -> str | None:
    """The program that compressed a file with these first bytes: gzip, bzip2, xz or zstd."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head[:3] == b"BZh" and head[3:4].isdigit() and head[4:10] in BZIP2_BLOCKS:
        return "bzip2"
    if head.startswith((b"\xfd7zXZ\x00", b"]\x00\x00")):
        return "xz"
    return "zstd" if head.startswith(b"\x28\xb5\x2f\xfd") else None


def not_text(head: bytes) -> NotText | None:
    """Why a file with these first bytes is neither text nor compressed text, as far as they tell."""
    unreadable = "zstd" if compression(head) == "zstd" and not find_spec("compression") else None
    if unpacker := unreadable or next((name for magic, name in COMPRESSED if head.startswith(magic)), None):
        return NotText(f"is compressed by {unpacker}", UNPACK)
    for offset, magic, fault in UNREAD:
        if head.startswith(magic, offset):
            return NotText(fault, PLAIN)
    if head.startswith(b"PK\x03\x04"):
        return NotText(_zip(head), PLAIN)
    if head.startswith(LFS):
        return NotText("is a Git LFS pointer, not the file itself", "run `git lfs pull` first")
    start = head.removeprefix(BYTE_ORDER_MARK)[:40].lstrip().lower()
    if markup := next((name for mark, name in MARKUP.items() if start.startswith(mark)), None):
        return NotText(f"is {markup}, not plain text", "must hold the sentences alone, one per line")
    if encoding := _encoding(head):
        return NotText(f"is {encoding}", f"must be UTF-8; convert it by `iconv -f {encoding} -t UTF-8`")
    return None


def _zip(head: bytes) -> str:
    if b"[Content_Types].xml" in head or b"word/" in head or b"_rels/" in head:
        return "is an Office document"
    return "is an OpenDocument file" if b"mimetypeapplication/vnd.oasis" in head else "is a zip archive"


def _encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, by the mark, or by where the zero bytes of ASCII letters are."""
    for mark, name in ENCODINGS:
        if head.startswith(mark):
            return name
    if compression(head) or len(head) < 4:
        return None
    first, second, third, fourth = (head[start::4].count(0) / len(head[start::4]) for start in range(4))
    if min(first, second, third, fourth) > NEARLY_ALL:
        return None
    if min(third, fourth) > NEARLY_ALL or min(first, second) > NEARLY_ALL:
        return "UTF-32LE" if fourth > NEARLY_ALL else "UTF-32BE"
    even, odd = first + third, second + fourth
    if max(even, odd) > SOME and min(even, odd) < max(even, odd) / 8:
        return "UTF-16LE" if odd > even else "UTF-16BE"
    return None

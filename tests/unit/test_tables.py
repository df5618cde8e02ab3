"""Tables as text."""

import io
import re

from kgen.tables import Table, plain_text, printable, write_tables, write_text


def test_columns_are_aligned_and_lines_end_without_spaces():
    table = Table(
        title="Fruit",
        columns=("name", "count", "note"),
        rows=(("fig", "7", ""), ("apple", "1,200", "red")),
        right=frozenset({1}),
    )
    assert plain_text(table) == (
        "Fruit\n" "  name   count  note\n" "  fig        7\n" "  apple  1,200  red\n"
    )


def test_the_last_column_may_be_flush_right():
    table = Table(
        title="",
        columns=("", ""),
        rows=(("a", "1"), ("b", "10")),
        right=frozenset({1}),
    )
    assert plain_text(table) == "  a   1\n  b  10\n"


def test_prose_is_wrapped_and_words_stay_whole():
    path = "a/" * 50 + "b.toml"
    table = Table(
        title="",
        columns=("", ""),
        rows=(("key", "some words that are too long for one line of this width"),),
        note=f"see {path}",
    )
    assert plain_text(table, 40) == (
        "  key  some words that are too long for\n"
        "       one line of this width\n"
        "  see\n"
        f"  {path}\n"
    )


def test_an_empty_table_has_its_heads():
    assert (
        plain_text(Table(title="", columns=("name", "op"), rows=())) == "  name  op\n"
    )


def test_control_characters_are_escaped():
    assert printable("a\x1b[31m\nb\u202e é") == "a\\x1b[31m\\nb\\u202e é"
    table = Table(title="", columns=("",), rows=(("a\nb",),))
    assert plain_text(table) == "  a\\nb\n"


def test_what_the_stream_cannot_encode_is_escaped():
    binary = io.BytesIO()
    stream = io.TextIOWrapper(binary, encoding="ascii", newline="\n")
    write_text("é \udcff\n", stream)
    assert binary.getvalue() == b"\\xe9 \\udcff\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(table, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    write_tables([table], stream)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def test_a_terminal_gets_the_same_content_within_its_width(monkeypatch):
    table = Table(
        title="[red]Fruit[/red]",
        columns=("name", "note"),
        rows=(("[bold]fig[/bold]", "x" * 100), ("apple", "\x1b[31m:smile:")),
        note="that is all",
    )
    text = drawn(table, monkeypatch, 60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.startswith("[red]Fruit[/red]\n")
    assert "[bold]fig[/bold]" in text
    assert text.count("x") >= 100
    assert "\\x1b[31m:smile:" in text
    assert text.endswith("that is all\n")


def test_a_terminal_that_draws_no_boxes_gets_pairs_as_they_are(monkeypatch):
    table = Table(title="", columns=("", ""), rows=(("key", "value"),))
    assert drawn(table, monkeypatch, 80).rstrip() == "  key  value"

"""A hook of mkdocs for links to what a site does not have.

Where the repository is browsed, a page may link to a directory, or to a file outside of
docs/. The site has neither, so it shows the path instead. What does not exist is left to
mkdocs, which warns of it.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<target>[^()\s:#]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Returns the text of a page, such links replaced by paths from the top."""
    source = Path(page.file.abs_src_path)

    def replaced(link: re.Match[str]) -> str:
        path = (source.parent / link["target"]).resolve()
        if not path.exists() or not path.is_relative_to(ROOT):
            return link[0]
        if path.is_file() and path.is_relative_to(ROOT / "docs"):
            return link[0]
        shown = f"`{path.relative_to(ROOT)}`"
        text = link["text"].strip("`/")
        return shown if link["target"].endswith(text) else f"{link['text']} ({shown})"

    return LINK.sub(replaced, markdown)

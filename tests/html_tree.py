"""Reading a rendered page back: its tree, its text, its structure, and our own style sheets."""

from collections import Counter
from functools import lru_cache
from importlib import resources
from xml.etree.ElementTree import Element

import html5lib

SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"


@lru_cache(maxsize=8)
def parse(html: str) -> Element:
    """The tree of a document, not to be changed; any parse error fails the test."""
    tree: Element = html5lib.HTMLParser(strict=True).parse(html)
    return tree


def parse_fragment(html: str) -> Element:
    tree: Element = html5lib.HTMLParser(strict=True).parseFragment(html)
    return tree


def elements(tree: Element, *names: str) -> list[Element]:
    wanted = {space + name for name in names for space in (HTML, SVG)}
    return [node for node in tree.iter() if node.tag in wanted]


def text_of(node: Element) -> str:
    return " ".join("".join(node.itertext()).split())


def structure(tree: Element) -> Counter[tuple[str, tuple[str, ...]]]:
    return Counter((str(node.tag), tuple(sorted(node.attrib))) for node in tree.iter())


def controls(text: str) -> set[str]:
    bad = [
        *range(0x20),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    ]
    return set(text) & ({chr(code) for code in bad} - {"\n"})


def asset(name: str) -> str:
    return resources.files("advisor.templates").joinpath(name).read_text(encoding="utf-8")


def visible(html: str) -> str:
    """The text of a page, without scripts and labels of pictures."""
    tree = parse(html)
    parts = []
    for node in elements(tree, "body")[0].iter():
        hidden = node.tag in (HTML + "script", SVG + "text")
        parts.append("" if hidden else node.text or "")
        parts.append(node.tail or "")
    return " ".join(parts)

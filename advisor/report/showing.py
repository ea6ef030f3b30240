"""How a result shows itself in a notebook: text, HTML without script and Markdown, whatever can be made."""

from collections.abc import Callable

from advisor.base.errors import clean

HTML_LIMIT = 200_000  # characters; a page of a notebook holds many results


def mime_bundle(text: str, html: Callable[[], str], markdown: Callable[[], str]) -> dict[str, str]:
    """What ``_repr_mimebundle_`` returns.

    A face that cannot be made, or an HTML that is too large, is left out, and the text says why: it must not
    hide the result of a run that took minutes.

    Args:
        text: The plain text, which is always there.
        html: Makes the HTML.
        markdown: Makes the Markdown.
    """
    bundle = {"text/plain": text}
    for kind, make in (("text/html", html), ("text/markdown", markdown)):
        try:
            made = make()
        except Exception as error:  # whatever a template raises: the plain text shows the result all the same
            bundle["text/plain"] += f"\n({kind} was not made: {type(error).__name__}: {clean(str(error))})\n"
            continue
        if len(made) > HTML_LIMIT:
            bundle["text/plain"] += f"\n({kind} was left out: {len(made) // 1000} KB are too large)\n"
            continue
        bundle[kind] = made
    return bundle

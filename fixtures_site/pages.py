"""The shop's page as HTML: the server's record rendered, so that a reload shows the truth.

Pure. No inline style or script: the Content-Security-Policy (app.py) allows none.
"""

from __future__ import annotations

from html import escape

from .catalogue import CATEGORIES, Product, products
from .looks import Look, look

_FUNNEL = (
    '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">'
    '<path d="M1 2h14L9.5 8.5V14l-3-1.5v-4z" fill="none" stroke="currentColor" stroke-width="1.4"/></svg>'
)
_GLASS = (
    '<svg class="icon glass" viewBox="0 0 16 16" aria-hidden="true">'
    '<circle cx="6.5" cy="6.5" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M10 10l4.5 4.5" stroke="currentColor" stroke-width="1.5"/></svg>'
)


def shop(*, seed: int, run: str, page: str, panel_open: bool, search: str) -> str:
    """The whole document of one load; *run* and *page* come back with every event."""
    chosen = look(seed)
    toolbar = _toolbar(chosen, panel_open=panel_open, search=search)
    in_header = chosen.toolbar == "header"
    body_class = f"toolbar-{chosen.toolbar} panel-{chosen.panel} align-{chosen.align}"
    cards = "".join(_card(product) for product in products(seed))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(chosen.shop)}</title>
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/look.css?seed={seed}">
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body class="{body_class}" data-run="{escape(run)}" data-page="{escape(page)}">
<header class="top">
<a class="brand" href="#">{escape(chosen.shop)}</a>
{toolbar if in_header else _navigation()}
<span class="basket">Basket (2)</span>
</header>
{"" if in_header else toolbar}
<p class="notice" id="notice" role="status" hidden>This page is out of date. Reload it.</p>
<div class="main">
{_panel(open_=panel_open)}
<main>
<h1>All goods</h1>
<p class="count" id="count">12 products</p>
<ul class="cards" id="cards">{cards}</ul>
</main>
</div>
<footer>Delivery within three days · <a href="#">Search help</a> · <a href="#">Returns</a></footer>
</body>
</html>
"""


def _navigation() -> str:
    links = "".join(f'<a href="#">{name}</a>' for name in ("New", "Offers", "Search help"))
    return f"<nav>{links}</nav>"


def _toolbar(chosen: Look, *, panel_open: bool, search: str) -> str:
    caption = "Hide filters" if panel_open else "Show filters"
    button = (
        f'<button type="button" id="toggle" class="control toggle {chosen.button_style}" '
        f'aria-controls="filters" aria-expanded="{str(panel_open).lower()}">'
        f'{_FUNNEL if chosen.button_icon else ""}<span id="caption">{caption}</span></button>'
    )
    field = _field(chosen, search=search)
    parts = (button, field) if chosen.order == "button-first" else (field, button)
    return f'<div class="toolbar">{"".join(parts)}</div>'


def _field(chosen: Look, *, search: str) -> str:
    label = "" if chosen.label == "placeholder" else '<label for="search">Search</label>'
    named = ' aria-label="Search"' if chosen.label == "placeholder" else ""
    placeholder = f' placeholder="{escape(chosen.placeholder)}"' if chosen.placeholder else ""
    go = '<button type="button" class="control go">Search</button>' if chosen.search_button else ""
    icon = _GLASS if chosen.search_icon else ""
    return (
        f'<div class="field label-{chosen.label}">{label}<div class="box{" iconed" if icon else ""}">{icon}'
        f'<input type="text" id="search" class="control"{named}{placeholder} value="{escape(search)}" '
        f'autocomplete="off" spellcheck="false" maxlength="200"></div>{go}</div>'
    )


def _panel(*, open_: bool) -> str:
    choices = "".join(f'<label><input type="checkbox"> {name}</label>' for name in CATEGORIES)
    prices = "".join(
        f'<label><input type="radio" name="price"> {name}</label>'
        for name in ("Any price", "Under 20", "Over 20")
    )
    return (
        f'<aside id="filters" class="panel"{"" if open_ else " hidden"}><h2>Filters</h2>'
        f"<fieldset><legend>Category</legend>{choices}</fieldset>"
        f"<fieldset><legend>Price</legend>{prices}</fieldset></aside>"
    )


def _card(product: Product) -> str:
    return (
        f'<li class="card"><div class="picture {product.shape}"></div><h3>{escape(product.name)}</h3>'
        f'<p class="facts"><span>{escape(product.category)}</span><b>{escape(product.price)}</b></p></li>'
    )


FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="3" fill="#556"/><path d="M4 5h8l-1 7H5z" fill="#fff"/></svg>'
)

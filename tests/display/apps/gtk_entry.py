"""A GTK entry: prints its text, as one line of JSON, at each Return."""

import json

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402


def tell(entry: Gtk.Entry) -> None:
    print(json.dumps(entry.get_text()), flush=True)
    entry.set_text("")


window = Gtk.Window(title="gtk entry")
window.set_default_size(600, 60)
entry = Gtk.Entry()
entry.connect("activate", tell)
window.add(entry)
window.connect("destroy", Gtk.main_quit)
window.show_all()
entry.grab_focus()
Gtk.main()

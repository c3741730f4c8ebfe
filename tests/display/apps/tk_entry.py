"""A Tk entry: prints its text, as one line of JSON, at each Return."""

import json
import tkinter


def tell(_: object) -> None:
    print(json.dumps(entry.get()), flush=True)
    entry.delete(0, tkinter.END)


window = tkinter.Tk()
window.title("tk entry")
entry = tkinter.Entry(window, width=80)
entry.pack(padx=20, pady=20)
entry.bind("<Return>", tell)
entry.focus_set()
window.mainloop()

"""A Qt line edit: prints its text, as one line of JSON, at each Return."""

import json
import sys

from PyQt5.QtWidgets import QApplication, QLineEdit


def tell() -> None:
    print(json.dumps(line.text()), flush=True)
    line.clear()


app = QApplication(sys.argv)
line = QLineEdit()
line.setWindowTitle("qt line")
line.resize(600, 60)
line.returnPressed.connect(tell)
line.show()
app.exec_()

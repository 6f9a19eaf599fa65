"""Take the pictures of the page: `make docs-pictures`. The word count of the examples runs on Spark meanwhile."""

import gzip
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import chromium_program  # noqa: E402 (the tools are scripts, not a package)

_DIRECTORY = ROOT / "docs" / "pictures"
_EXAMPLE = ROOT / "examples" / "word_count"
_SIZE = {"width": 1100, "height": 860}
_WAVES = 30  # that the topology has committed before the pictures are taken
_LINES, _PAUSE_S = 100, 0.5  # of a file of input, and until the next file
_PATIENCE_S = 900.0
# What is on a picture: its view, and what to wait for in it.
_VIEWS = {
    "page-overview": ("#/overview", "svg .node"),
    "page-checkpoints": ("#/waves", ".chart-bar"),
    "page-component": ("#/components/count", ".spreads svg"),
}


def main() -> None:
    """Write all pictures into the directory of the first argument, or into docs/pictures."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else _DIRECTORY
    program = chromium_program.find()
    if program is None:
        sys.exit("There is no Chromium on the PATH. Run make docs-pictures, which installs it or says how to.")
    with _running() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        page = browser.new_page(viewport=_SIZE, color_scheme="light")  # type: ignore[arg-type]
        for name, (view, shown) in _VIEWS.items():
            page.goto(f"{address}{view}")
            expect(page.locator(shown).first).to_be_visible()
            expect(page.locator("#view")).to_have_attribute("data-shown", view)
            page.screenshot(path=directory / f"{name}.png")
            print(f"taken: {directory / f'{name}.png'}")
        browser.close()


@contextmanager
def _running() -> Iterator[str]:
    """Run the word count until the context ends; give its page's address once it has committed enough waves."""
    with tempfile.TemporaryDirectory() as place:
        lines = Path(place, "in")
        lines.mkdir()
        job = [f"{_EXAMPLE / 'job.py'}:topology", "--set", f"word_count.input={lines}", "--master", "local[2]"]
        command = [sys.executable, "-m", "anchorbolt", "run", *job, "--ui-port", "0"]
        with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as process:
            ended = threading.Event()
            feeder = threading.Thread(target=_feed, args=(lines, ended))
            try:
                assert process.stdout is not None
                address = process.stdout.readline().removeprefix("page: ").strip()
                threading.Thread(target=process.stdout.read, daemon=True).start()
                feeder.start()
                _await_waves(address)
                yield address
            finally:
                ended.set()
                process.terminate()
        feeder.join()


def _feed(directory: Path, ended: threading.Event) -> None:
    """Write one file of lines after the other, each whole at once."""
    with gzip.open(_EXAMPLE / "king_james_bible.txt.gz", "rt", encoding="utf-8") as text:
        lines = cycle(text)
        for number in count():
            file = directory.parent / "next.txt"
            file.write_text("".join(islice(lines, _LINES)), encoding="utf-8")
            file.rename(directory / f"{number:05}.txt")
            if ended.wait(_PAUSE_S):
                return


def _await_waves(address: str) -> None:
    wait = threading.Event()
    for _ in range(int(_PATIENCE_S)):
        answer: Any = json.load(urllib.request.urlopen(f"{address}api/v1/topology/word-count/waves", timeout=30))
        if sum(each["kind"] == "wave" for each in answer["waves"]) >= _WAVES:
            return
        wait.wait(1)
    sys.exit(f"the topology did not commit {_WAVES} waves within {_PATIENCE_S:.0f} s")


if __name__ == "__main__":
    main()

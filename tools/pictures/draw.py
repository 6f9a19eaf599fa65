"""Draw the pictures of the documentation from what they show, code or measurements: `make docs-pictures`."""

import json
import sys
from pathlib import Path

import charts
import checkpoint_states
import levels
import one_wave

_ROOT = Path(__file__).resolve().parents[2]
_DIRECTORY = _ROOT / "docs" / "pictures"
_MEASURED = _ROOT / "benchmarks" / "measured"
_PICTURES = {"checkpoint-states": checkpoint_states.drawing, "levels": levels.drawing, "wave": one_wave.drawing}


def main() -> None:
    """Write all pictures into the directory of the first argument, or into docs/pictures."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else _DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    drawings = {name: drawing() for name, drawing in _PICTURES.items()}
    for file in sorted(_MEASURED.glob("*.json")):
        drawings[file.stem] = charts.drawing(json.loads(file.read_text(encoding="utf-8")))
    for name, drawing in drawings.items():
        (directory / f"{name}.svg").write_text(drawing.svg(), encoding="utf-8")
        print(f"drawn: {directory / f'{name}.svg'}")


if __name__ == "__main__":
    main()

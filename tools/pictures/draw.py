"""Draw the pictures of the documentation from the code that they show: `make docs-pictures`."""

import sys
from pathlib import Path

import checkpoint_states
import levels
import one_wave

_DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_PICTURES = {"checkpoint-states": checkpoint_states.drawing, "levels": levels.drawing, "wave": one_wave.drawing}


def main() -> None:
    """Write all pictures into the directory of the first argument, or into docs/pictures."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else _DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    for name, drawing in _PICTURES.items():
        (directory / f"{name}.svg").write_text(drawing().svg(), encoding="utf-8")
        print(f"drawn: {directory / f'{name}.svg'}")


if __name__ == "__main__":
    main()

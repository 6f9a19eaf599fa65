"""The picture of one wave: what its tasks, the store and the driver do, in the order of time."""

from itertools import pairwise

from svg import Drawing

_LANES = ["sentences (spout)", "split", "count (state)", "out (sink)", "store", "driver"]
_Y = {lane.partition(" ")[0]: 92 + 48 * index for index, lane in enumerate(_LANES)}
_LEFT, _DECIDED, _RIGHT = 140, 600, 856
_PHASES = [("run", _LEFT, 270), ("prepare", 270, 490), ("decide", 490, _DECIDED), ("commit", _DECIDED, _RIGHT)]
# Each task handles its tuples from the first number on, until the checkpoint tuple has come from all tasks before it.
_TASKS = {"sentences": (148, 270), "split": (168, 310), "count": (188, 350), "out": (208, 390)}


def drawing() -> Drawing:
    """Draw the lanes from left to right."""
    picture = Drawing(_RIGHT + 14, 426, title="One wave: run, PREPARE, decision, COMMIT")
    for lane in _LANES:
        y = _Y[lane.partition(" ")[0]]
        picture.text(14, y + 5, lane, anchor="start", kind="strong" if lane in ("store", "driver") else "")
        picture.line([(_LEFT, y), (_RIGHT, y)], kind="line faint")
    for name, start, end in _PHASES:
        picture.box(start + 2, 18, end - start - 4, 28, kind="orange" if name == "decide" else "plain")
        picture.text((start + end) / 2, 37, name, kind="strong")
    _tasks(picture)
    _prepared(picture)
    _decided(picture)
    picture.line([(_DECIDED, 52), (_DECIDED, 392)], kind="line bold")
    picture.box(_LEFT, 370, _DECIDED - _LEFT - 8, 34, kind="blue")
    picture.text((_LEFT + _DECIDED) / 2, 392, "a crash here: roll back, run the wave again")
    picture.box(_DECIDED + 8, 370, _RIGHT - _DECIDED - 8, 34, kind="green")
    picture.text((_DECIDED + _RIGHT) / 2, 392, "a crash here: roll forward")
    return picture


def _tasks(picture: Drawing) -> None:
    for lane, (start, end) in _TASKS.items():
        picture.box(start, _Y[lane] - 11, end - start, 22, kind="blue")
    picture.text(205, _Y["sentences"] + 5, "tuples", kind="small")
    for lane, following in pairwise(_TASKS):
        picture.line([(_TASKS[lane][1], _Y[lane] + 9), (_TASKS[following][1], _Y[following] - 10)], arrow=True)
    for lane, (_, end) in _TASKS.items():
        picture.diamond(end, _Y[lane], kind="orange")
    picture.text(286, _Y["sentences"] - 4, "PREPARE, behind the tuples", kind="code", anchor="start")


def _prepared(picture: Drawing) -> None:
    count, out, report = _TASKS["count"][1], _TASKS["out"][1], 526
    picture.line([(count, _Y["count"] + 10), (count, _Y["store"] - 4)], arrow=True)
    picture.text(count, _Y["store"] + 18, "stage, seal", kind="small")
    picture.line([(out, _Y["out"] + 10), (out, _Y["out"] + 20)])
    picture.text(out - 6, _Y["out"] + 34, "rows to the outbox", anchor="start", kind="small")
    picture.line(
        [(out + 9, _Y["out"]), (report, _Y["out"]), (report, _Y["driver"] - 4)], kind="line dashed", arrow=True
    )
    picture.text(report - 8, _Y["driver"] - 14, "all are prepared", anchor="end", kind="small")


def _decided(picture: Drawing) -> None:
    record, commit, publish, committed = 562, 652, 734, 812
    store, driver = _Y["store"], _Y["driver"]
    picture.diamond(record, driver, kind="orange")
    picture.text(_DECIDED - 6, driver + 22, "decision record", anchor="end", kind="small")
    for x, top in ((record, store), (commit, store), (publish, _Y["out"]), (committed, store)):
        picture.line([(x, driver - (10 if x == record else 2)), (x, top + 4)], arrow=True)
    picture.text(commit, store - 10, "apply updates", kind="small")
    picture.text(publish, _Y["out"] - 8, "publish rows", kind="small")
    picture.text(committed, store - 10, "COMMITTED", kind="code")
    picture.text(commit, driver + 22, "COMMIT", kind="code")

"""The picture of a transaction's phases: follows the moves that `CheckpointState` allows."""

from svg import Drawing

from anchorbolt.checkpoint.state_machine import Action, CheckpointState, Phase

TXID = 7
_WIDTH, _HEIGHT, _GAP, _TOP = 150, 44, 74, 56
_KINDS = {Phase.COMMITTED: "green", Phase.PREPARING: "blue", Phase.COMMITTING: "orange"}
# What the store holds in each phase, and what a driver that starts then does by the action of `recovery()`.
_HELD = {Phase.COMMITTED: "record: COMMITTED", Phase.PREPARING: "no new record", Phase.COMMITTING: "record: COMMITTING"}
_RECOVERIES = {
    Action.INITSTATE: "continue behind it",
    Action.ROLLBACK: "drop, and run it again",
    Action.COMMIT: "finish the commit",
}


def drawing() -> Drawing:
    """Draw the states from one commit to the next, each with what a starting driver does that finds it."""
    moves = walk(TXID)
    states = [CheckpointState(TXID - 1, Phase.COMMITTED), *(state for _, state in moves)]
    left = 16
    width = left + len(states) * _WIDTH + (len(states) - 1) * _GAP + left
    picture = Drawing(width, 264, title=f"The phases of transaction {TXID}, and what a driver does that starts in each")
    places = [left + index * (_WIDTH + _GAP) for index in range(len(states))]
    for x, state in zip(places, states, strict=True):
        middle = x + _WIDTH / 2
        picture.box(x, _TOP, _WIDTH, _HEIGHT, kind=_KINDS[state.phase])
        picture.text(middle, _TOP + 27, f"{state.phase.value}({state.txid})", kind="strong")
        picture.text(middle, 166, _HELD[state.phase], kind="code")
        picture.text(middle, 226, state.recovery().value, kind="code strong")
        picture.text(middle, 248, _RECOVERIES[state.recovery()])
    for x, (name, _) in zip(places, moves, strict=False):
        y = _TOP + _HEIGHT / 2
        picture.line([(x + _WIDTH, y), (x + _WIDTH + _GAP, y)], arrow=True)
        picture.text(x + _WIDTH + _GAP / 2, y - 8, name, kind="code")
    preparing = next(x for x, state in zip(places, states, strict=True) if state.phase is Phase.PREPARING)
    again = [(preparing + 115, _TOP), (preparing + 115, 34), (preparing + 35, 34), (preparing + 35, _TOP)]
    picture.line(again, kind="line dashed", arrow=True)
    picture.text(preparing + 75, 24, "a round failed: roll back, another round", kind="muted")
    for y, row in ((124, "in the store:"), (184, "what a driver does that starts now:")):
        picture.line([(left, y), (width - left, y)], kind="line dashed")
        picture.text(left, y + 20, row, kind="muted", anchor="start")
    return picture


def walk(txid: int) -> list[tuple[str, CheckpointState]]:
    """Return the moves from the commit before `txid` to its own, each with the state that it leads to."""
    state = CheckpointState(txid - 1, Phase.COMMITTED).begin()
    moves = [("begin", state)]
    while state.phase is not Phase.COMMITTED:
        [(action, state)] = [(action, after) for action in Action if (after := _after(state, action))]
        moves.append((action.value, state))
    return moves


def _after(state: CheckpointState, action: Action) -> CheckpointState | None:
    try:
        return state.after(action)
    except ValueError:
        return None

"""The JSON schemas of the answers. A test checks real answers against them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_DECIMAL: Schema = {"type": "string", "pattern": r"^-?\d+\.\d{3}$"}
_ANYTHING: Schema = {}


def _object(optional: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_HEAD = dict.fromkeys(("id", "encodedId", "name", "status", "uptime"), _TEXT)
_HEAD |= dict.fromkeys(("uptimeSeconds", "tasksTotal", "executorsTotal"), _WHOLE)
_AMOUNTS = dict.fromkeys(("executed", "emitted", "failed", "errors", "bytesOut"), _WHOLE)
_AMOUNTS |= dict.fromkeys(("keysRead", "keysCached", "keysStaged", "bytesStaged"), _WHOLE)
_AMOUNTS |= dict.fromkeys(("executeMs", "prepareMs", "stageMs", "sealMs"), _NUMBER)
# A history does not tell the others.
_AMOUNTS |= {name: _or_null(each) for name, each in _AMOUNTS.items() if name not in ("executed", "emitted")}
_ERROR = {"lastError": _TEXT, "errorTime": _or_null(_WHOLE), "errorLapsedSecs": _or_null(_WHOLE)}
_COMPONENT = {"tasks": _WHOLE, "executors": _WHOLE, "type": _TEXT, **_AMOUNTS, "transferred": _or_null(_WHOLE)}
_COMPONENT |= {"skew": _or_null(_NUMBER), **_ERROR}
_WINDOW = {"window": _TEXT, "windowHint": _TEXT, "windowSeconds": _NUMBER}
_QUANTILES = _map(_object(count=_WHOLE, p50=_NUMBER, p99=_NUMBER))
_FAILURE = _or_null(_object(error=_TEXT, text=_TEXT))
_OF_WINDOW = {"window": _TEXT, "windowPretty": _TEXT}
_TASK_KEYS = {"component": _TEXT, "task": _WHOLE}
_TASK = _object(**_TASK_KEYS)

SUMMARY = _object(topologies=_list(_object(**_HEAD)))
TOPOLOGY = _object(
    **_HEAD,
    **_WINDOW,
    msgTimeout=_or_null(_WHOLE),
    topologyStats=_list(
        _object(
            ("completeLatency",),
            **_OF_WINDOW,
            **dict.fromkeys(("emitted", "acked", "failed", "deadLetters"), _WHOLE),
            transferred=_or_null(_WHOLE),
            completeLatency=_DECIMAL,
        )
    ),
    spouts=_list(
        _object(
            ("completeLatency",),
            **_COMPONENT,
            spoutId=_TEXT,
            encodedSpoutId=_TEXT,
            acked=_or_null(_WHOLE),
            deadLetters=_or_null(_WHOLE),
            completeLatency=_DECIMAL,
        )
    ),
    bolts=_list(
        _object(
            ("acked",),
            **_COMPONENT,
            boltId=_TEXT,
            encodedBoltId=_TEXT,
            capacity=_or_null(_DECIMAL),
            executeLatency=_or_null(_DECIMAL),
            stateful=_FLAG,
            acked=_WHOLE,
        )
    ),
    configuration=_map(_ANYTHING),
    generation=_WHOLE,
    recovery=_or_null(_object(action=_TEXT, ms=_NUMBER)),
    txid=_WHOLE,
    isLive=_FLAG,
    waves=_map(_NUMBER),
    phasesMs=_QUANTILES,
    storeMs=_QUANTILES,
    failure=_FAILURE,
    facts=_map(_TEXT),
)
_STATS = _list(
    _object(
        ("acked", "completeLatency"),
        **_OF_WINDOW,
        **_AMOUNTS,
        transferred=_or_null(_WHOLE),
        executeLatency=_or_null(_DECIMAL),
        capacity=_or_null(_DECIMAL),
        acked=_WHOLE,
        completeLatency=_DECIMAL,
    )
)
_SPREAD = _object(min=_NUMBER, median=_NUMBER, max=_NUMBER, bars=_list(_WHOLE))
COMPONENT = _object(
    ("spoutSummary", "boltStats"),
    **_WINDOW,
    **dict.fromkeys(("id", "encodedId", "name", "topologyId", "encodedTopologyId", "topologyStatus"), _TEXT),
    **dict.fromkeys(("componentType", "type"), _TEXT),
    **dict.fromkeys(("tasks", "executors", "executorsTotal", "executorsFirst"), _WHOLE),
    spoutSummary=_STATS,
    boltStats=_STATS,
    inputStats=_list(
        _object(
            ("executeLatency", "acked", "failed"),
            **dict.fromkeys(("component", "encodedComponentId", "stream", "grouping"), _TEXT),
            executed=_or_null(_WHOLE),
            executeLatency=_DECIMAL,
            acked=_WHOLE,
            failed=_WHOLE,
        )
    ),
    outputStats=_list(
        _object(
            ("emitted",),
            stream=_TEXT,
            emitted=_WHOLE,
            transferred=_WHOLE,
            targets=_list(_object(target=_TEXT, transferred=_WHOLE)),
        )
    ),
    executorStats=_list(
        _object(
            ("acked", "failed", "completeLatency", "transferred"),
            id=_TEXT,
            encodedId=_TEXT,
            **_AMOUNTS,
            executedPerSecond=_NUMBER,
            executeLatency=_DECIMAL,
            capacity=_DECIMAL,
            acked=_WHOLE,
            completeLatency=_DECIMAL,
            transferred=_WHOLE,
        )
    ),
    skew=_or_null(_NUMBER),
    spread=_map(_SPREAD),
    componentErrors=_list(_object(error=_TEXT, errorTime=_WHOLE, errorLapsedSecs=_WHOLE)),
)
GRAPH = _object(
    window=_TEXT,
    windowSeconds=_NUMBER,
    components=_list(
        _object(
            ("stateful", "sink", "committer"),
            **dict.fromkeys(("id", "kind", "type"), _TEXT),
            **dict.fromkeys(("level", "tasks", "executed", "emitted"), _WHOLE),
            **dict.fromkeys(("stateful", "sink", "committer"), _FLAG),
            executedPerSecond=_NUMBER,
            emittedPerSecond=_NUMBER,
            capacity=_or_null(_NUMBER),
            inputs=_list(_object(component=_TEXT, stream=_TEXT, grouping=_TEXT)),
        )
    ),
    edges=_list(
        _object(
            **dict.fromkeys(("source", "stream", "target", "grouping"), _TEXT),
            transferred=_or_null(_WHOLE),
            perSecond=_or_null(_NUMBER),
        )
    ),
)
NOW = _object(
    at=_NUMBER,
    status=_TEXT,
    isLive=_FLAG,
    ready=_FLAG,
    reason=_TEXT,
    pausing=_FLAG,
    canAct=_FLAG,
    txid=_WHOLE,
    generation=_WHOLE,
    commitAgeSecs=_or_null(_NUMBER),
    wave=_or_null(
        _object(
            **dict.fromkeys(("txid", "round", "tasksEnded", "tasksTotal", "waitsForTasksTotal"), _WHOLE),
            phase=_TEXT,
            lastFailure=_TEXT,
            seconds=_NUMBER,
            waitsForTasks=_list(_TASK),
        )
    ),
    waiting=_list(_object(**{"for": _TEXT, "seconds": _NUMBER})),
    losses=_WHOLE,
    messagesInFlight=_or_null(_WHOLE),
    throttled=_TEXT,
    throttledBy=_or_null(_TASK),
    throttle=_or_null(
        _object(
            reason=_TEXT,
            by=_or_null(_TASK),
            **dict.fromkeys(("seconds", "windowSeconds", "ofSeconds"), _NUMBER),
            spouts=_list(_object(spout=_TEXT, messagesInFlight=_WHOLE, most=_or_null(_WHOLE), tasksHeld=_WHOLE)),
        )
    ),
    oldestMessageSecs=_or_null(_NUMBER),
    longCalls=_list(_object(**dict.fromkeys(("kind", "method", "stack"), _TEXT), **_TASK_KEYS, seconds=_NUMBER)),
    offsetsBehind=_or_null(_WHOLE),
    filesWaiting=_or_null(_WHOLE),
    sources=_list(_object(spout=_TEXT, offsetsBehind=_or_null(_WHOLE), filesWaiting=_or_null(_WHOLE))),
    failure=_FAILURE,
)
_RECORD: Schema = {
    "type": "object",
    "properties": {"kind": {"enum": ["start", "wave", "end"]}, "at": _NUMBER, "generation": _WHOLE, "txid": _WHOLE},
    "required": ["kind", "at", "generation", "txid"],
}
WAVES = _object(total=_WHOLE, waves=_list(_RECORD))
WAVE = _RECORD
FAILURES = _object(
    run=_FAILURE,
    rounds=_list(_object(at=_NUMBER, txid=_WHOLE, rounds=_WHOLE, reasons=_list(_TEXT), **_TASK_KEYS, traceback=_TEXT)),
    ends=_list(_object(at=_NUMBER, txid=_WHOLE, status=_TEXT, error=_TEXT, text=_TEXT)),
    messages=_list(
        _object(
            **dict.fromkeys(("spout", "component", "messageId", "reason"), _TEXT),
            txid=_WHOLE,
            task=_WHOLE,
            timedOut=_FLAG,
        )
    ),
    timedOut=_list(_object(spout=_TEXT, **_TASK_KEYS, messages=_WHOLE)),
    letters=_list(
        _object(
            **dict.fromkeys(("spout", "message", "reason", "traceback"), _TEXT),
            **_TASK_KEYS,
            at=_NUMBER,
            txid=_WHOLE,
            tries=_WHOLE,
        )
    ),
    deadLetters=_WHOLE,
)
_SIZE = {"keys": _or_null(_WHOLE), "bytes": _or_null(_WHOLE)}
_STATE_HEAD = {"store": _TEXT, "isLive": _FLAG, "measuredAgeSecs": _or_null(_NUMBER)}
_COMPONENT_STATE = {"component": _TEXT, "type": _TEXT, "tasks": _WHOLE, **_SIZE, "skew": _or_null(_NUMBER)}
_COMPONENT_STATE["growth"] = _list(_object(seconds=_WHOLE, overSecs=_NUMBER, **_SIZE))
_COMPONENT_STATE["history"] = _list(_object(ageSecs=_NUMBER, **_SIZE))
STATE = _object(**_STATE_HEAD, components=_list(_object(**_COMPONENT_STATE)))
_SIZES_OF_TASKS = _object(
    **_STATE_HEAD,
    **_COMPONENT_STATE,
    canLookUp=_FLAG,
    tasksFirst=_WHOLE,
    bySize=_list(_object(task=_WHOLE, **_SIZE)),
    spread=_or_null(_SPREAD),
)
_LOOKED_UP = _object(
    component=_TEXT,
    key=_ANYTHING,
    keyText=_TEXT,
    tasksTotal=_WHOLE,
    tasksAsked=_WHOLE,
    found=_list(
        _object(("text", "value", "problem"), task=_WHOLE, bytes=_WHOLE, text=_TEXT, value=_ANYTHING, problem=_TEXT)
    ),
)
COMPONENT_STATE: Schema = {"anyOf": [_SIZES_OF_TASKS, _LOOKED_UP]}
CONFIGURATION = _object(keys=_list(_object(key=_TEXT, value=_ANYTHING, origin=_TEXT, known=_FLAG)), facts=_map(_TEXT))
DONE = _object(topologyOperation=_TEXT, topologyId=_TEXT, status=_TEXT)
READY = _object(("reason",), ready=_FLAG, reason=_TEXT)
REFUSED = _object(error=_TEXT, errorMessage=_TEXT)

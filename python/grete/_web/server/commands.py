"""Commands to a process: what it obeys, the page that asks again, the sending, and the audit."""

from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException

from grete._config.parsers import MAX_WORKERS
from grete._processing.commands.verification import ACTIONS
from grete._web.kafka.commands import LIFETIME
from grete._web.server.context import Context, Data
from grete._web.state.fleet import Process

_SHOWN = 200
# What a person is asked, and the word on the button.
_QUESTIONS = {
    "quiet": ("No more records are handed out; running handlers go on. Only a restart ends that.", "Quiet it"),
    "stop": (
        "Running handlers end, offsets are committed, and the process ends.",
        "Stop it",
    ),
    "restart": (
        "Running handlers end, offsets are committed, the process ends, and its supervisor starts the node again.",
        "Restart it",
    ),
    "dump_stacks": ("The stacks of all threads are written to the log of the process and to the audit.", "Dump stacks"),
    "pause": ("No more records are handed out, until someone resumes, or another process reads it.", "Pause"),
    "resume": ("Records are handed out again.", "Resume"),
    "scale": (
        "Handlers run in so many threads until the process starts again. Surplus threads end after their job.",
        "Set the workers",
    ),
    "seek": ("The process goes on from another offset: records are processed again, or left out.", "Move the offset"),
}


def commands_of(context: Context, process: Process) -> Data:
    """Returns whether the user may send commands to a process, and which partitions they may name."""
    return {
        "may_send": context.user.may("operator"),
        "obeys": process.is_alive(context.now) and _mode(process) != "off",
        "cure": _cure(context, process),
        "end": _end(process),
        "lanes": sorted({(lane.group, lane.topic, lane.partition) for lane in process.report.lanes}),
        "topics": sorted({(lane.group, lane.topic) for lane in process.report.lanes}),
    }


def plan(context: Context) -> Data:
    """Returns what a command would do. It sends nothing."""
    found, action, arguments = _wanted(context)
    question, button = _QUESTIONS[action]
    return {
        "id": found.facts.id,
        "name": f"{found.facts.app} {found.facts.host}:{found.facts.pid}",
        "action": action,
        "arguments": {name: str(value) for name, value in arguments.items()},
        "fields": {name: context.form[name] for name in ("place", "offset", "workers") if context.form.get(name)},
        "question": question,
        "button": button,
        "seconds": LIFETIME // 1000,
    }


def send(context: Context) -> str:
    """Sends a command. Returns the page of the process, which has the answer."""
    found, action, arguments = _wanted(context)
    facts = found.facts
    process = {"id": facts.id, "app": facts.app, "node": facts.node, "host": facts.host, "pid": facts.pid}
    context.parts.commands.send(process, action, arguments, context.user.name)
    return f"/process?id={quote(facts.id, safe='')}"


def audit(context: Context) -> Data:
    """Returns the newest commands and their results."""
    found = entries(context)
    return {"entries": found[:_SHOWN], "more": max(len(found) - _SHOWN, 0)}


def entries(context: Context, process_id: str = "") -> list[Data]:
    """Returns entries of the audit, the newest first. Viewers do not see stacks."""
    with context.store.lock:
        found = context.store.audit.newest(process_id)
    return [
        {
            "at": one.at,
            "command": one.command,
            "action": one.action,
            "arguments": [list(pair) for pair in one.arguments],
            "by": one.by,
            "process": one.process,
            "app": one.app,
            "result": one.result,
            "text": one.text,
            "detail": one.detail if context.user.may("operator") else "",
        }
        for one in found
    ]


def _wanted(context: Context) -> tuple[Process, str, dict[str, Any]]:
    context.require("operator")
    with context.store.lock:
        found = context.store.fleet.get(context.form.get("id", ""))
    if found is None or not found.is_alive(context.now):
        raise HTTPException(404, "there is no such process any more")
    cure = _cure(context, found)
    if cure:
        raise HTTPException(409, cure)
    action = context.form.get("action", "")
    if action not in ACTIONS:
        raise HTTPException(400, f"action is one of {', '.join(ACTIONS)}")
    if action in ("stop", "restart") and action != _end(found):
        raise HTTPException(400, f"send {_end(found)}: nodes of a swarm are restarted, other processes are stopped")
    return found, action, _arguments(context, found, action)


def _arguments(context: Context, process: Process, action: str) -> dict[str, Any]:
    if not ACTIONS[action]:
        return {}
    if action == "scale":
        workers = context.form_number("workers", least=1, most=MAX_WORKERS)
        if workers is None:
            raise HTTPException(400, f"workers is a number from 1 to {MAX_WORKERS}")
        return {"workers": workers}
    # The form names what the report has: nothing else can be sent.
    place = context.form.get("place", "")
    lanes = {f"{lane.group} {lane.topic} {lane.partition}": lane for lane in process.report.lanes}
    topics = {f"{lane.group} {lane.topic} *": lane for lane in process.report.lanes}
    lane = lanes.get(place) or topics.get(place)
    if lane is None:
        raise HTTPException(400, "the process has no such partition any more")
    arguments: dict[str, Any] = {"topic": lane.topic, "group": lane.group}
    if place in lanes:
        arguments["partition"] = lane.partition
    if action == "seek":
        if place not in lanes:
            raise HTTPException(400, "an offset belongs to a partition: choose one")
        offset = context.form.get("offset", "").strip()
        arguments["offset"] = offset if offset in ("earliest", "latest") else context.form_number("offset")
        if arguments["offset"] is None:
            raise HTTPException(400, "an offset is a whole number, earliest or latest")
    return arguments


def _end(process: Process) -> str:
    """Returns the command that ends the process: a supervisor would start a stopped node again."""
    return "stop" if process.facts.node is None else "restart"


def _mode(process: Process) -> str:
    """Returns "off", "unsigned" or "signed"."""
    values = {name: value for name, value, _ in process.settings.settings} if process.settings is not None else {}
    if values.get("web_commands_secret", "-") not in ("-", ""):
        return "signed"
    return "unsigned" if values.get("web_commands") == "True" else "off"


def _cure(context: Context, process: Process) -> str:
    """Returns why the process would not obey, with the cure; "": it obeys."""
    mode = _mode(process)
    if mode == "off":
        return "the process obeys no commands: set web_commands_secret in the App and in grete web"
    if mode == "signed" and not context.parts.commands.is_signing:
        return "the process obeys signed commands, and grete web has no secret: start it with GRETE_WEB_COMMANDS_SECRET"
    return ""

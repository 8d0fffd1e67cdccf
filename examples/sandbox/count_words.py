"""A handler in Python: reads jobs as JSON lines on standard input, answers on standard output."""
import json
import os
import sys
import traceback

line = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
os.dup2(2, 1)  # What this program prints goes to standard error: it is kept with the attempt.


def say(kind, **fields):
    line.write(json.dumps({"type": kind, **fields}) + "\n")


class Control(Exception):  # Snooze, retry-after, unrecoverable, cancel, throttled: what shall happen next.
    def __init__(self, message, **control):
        super().__init__(message)
        self.control = control


class Job:
    def __init__(self, message):
        self.run, self.input = message["run"], message.get("input")

    def progress(self, value, message=None):
        say("progress", run=self.run, value=value, message=message)

    def log(self, message, level="info", **fields):
        say("log", run=self.run, level=level, message=message, fields=fields)

    def kv_put(self, key, value):
        say("effect", run=self.run, effect="kv.put", key=key, value=value)

    def kv_get(self, key):
        say("call", run=self.run, call=1, ask="kv.get", key=key)
        return json.loads(sys.stdin.readline()).get("value")


def handle(job):
    left_out = job.kv_get("left-out-words") or []  # A shared counter would need compare-and-set: children run at once.
    words = [word for word in job.input["text"].split() if word not in left_out]
    if not words:
        raise Control("there is nothing to count", kind="unrecoverable")
    job.log("counting", words=len(words))
    job.progress(1.0, "counted")
    job.kv_put("last-counted", len(words))
    return {word: words.count(word) for word in sorted(set(words))}


say("ready")
for text in sys.stdin:
    message = json.loads(text)
    if message["type"] == "run":
        try:
            say("returned", run=message["run"], result=handle(Job(message)))
        except Exception as e:
            error = {"name": type(e).__name__, "message": str(e), "stack": traceback.format_exc()}
            say("threw", run=message["run"], error=error, control=getattr(e, "control", None))

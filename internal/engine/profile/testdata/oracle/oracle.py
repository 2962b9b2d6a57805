"""Answers what the installed TuneD makes of functions and profiles.

Requests and answers are lines of JSON on standard input and output:

  {"op": "version"}
      -> {"functions": [names]}
  {"op": "call", "machine": DIR, "name": NAME, "args": [...]}
      -> {"result": text, or null where the call stays unexpanded}
  {"op": "load", "machine": DIR, "dirs": [...], "names": [...], "before": [...]}
      -> {"units": [...], "variables": [[name, value], ...],
          "definitions": [[name, unexpanded value], ...], "main": [[name, value], ...]}
      "before" is loaded first, with the same Variables, as in a daemon that
      switches profiles.
  {"op": "list", "machine": DIR, "dirs": [...]}
      -> {"names": [...]}

A request that TuneD ends with an exception is answered by
{"raised": class, "message": text}. "machine" is a directory that becomes the
root directory for this request, "" means none: TuneD's own code runs
unchanged and finds that machine's /sys, /proc and /etc.
"""

import json
import logging
import os
import sys

import tuned.logs

tuned.logs.get()
logging.disable(logging.CRITICAL)

import tuned.profiles.functions
import tuned.profiles.factory
import tuned.profiles.loader
import tuned.profiles.locator
import tuned.profiles.merger
import tuned.profiles.variables
from tuned.profiles.functions.repository import Repository

ROOT = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
REPOSITORY = Repository()


def function_names():
    directory = os.path.dirname(tuned.profiles.functions.__file__)
    files = sorted(os.listdir(directory))
    return [f[len("function_"):-len(".py")] for f in files if f.startswith("function_") and f.endswith(".py")]


def call(request):
    return {"result": REPOSITORY.load_func(request["name"]).execute(request["args"])}


class Recorder(tuned.profiles.variables.Variables):
    """TuneD's Variables, and the order in which names were defined."""

    def __init__(self):
        super().__init__()
        self.definitions = []

    def add_variable(self, variable, value):
        if value is not None:
            self.definitions.append([str(variable), str(value)])
        super().add_variable(variable, value)


def load(request):
    variables = Recorder()
    loader = tuned.profiles.loader.Loader(
        tuned.profiles.locator.Locator(request["dirs"]),
        tuned.profiles.factory.Factory(),
        tuned.profiles.merger.Merger(),
        None,
        variables,
    )
    if request.get("before"):
        loader.load(request["before"])
        variables.definitions = []
    profile = loader.load(request["names"])
    return {
        "units": [unit(u, variables) for u in profile.units.values()],
        "variables": [[k, v] for k, v in variables.get_env().items()],
        "definitions": variables.definitions,
        "main": [[k, v] for k, v in profile.options.items()],
    }


def unit(u, variables):
    options = dict(u.options)
    # Until 2.20 the priority is an option that the unit manager takes out.
    priority = getattr(u, "priority", None)
    if priority is None:
        priority = options.pop("priority", None)
    return {
        "name": u.name,
        "type": u.type,
        "priority": priority,
        "enabled": u.enabled,
        "devices": u.devices,
        "devices_udev_regex": u.devices_udev_regex,
        "cpuinfo_regex": u.cpuinfo_regex,
        "uname_regex": u.uname_regex,
        "script_pre": u.script_pre,
        "script_post": u.script_post,
        # The plug-ins expand their values when they apply them.
        "options": [[k, v if isinstance(v, list) else variables.expand(v)] for k, v in options.items()],
    }


def list_names(request):
    return {"names": tuned.profiles.locator.Locator(request["dirs"]).get_known_names()}


OPERATIONS = {"call": call, "load": load, "list": list_names}


def answer(request):
    if request["op"] == "version":
        return {"functions": function_names()}
    machine = request.get("machine", "")
    if machine:
        os.chroot(machine)
        os.chdir("/")
    try:
        return OPERATIONS[request["op"]](request)
    except Exception as e:
        return {"raised": type(e).__name__, "message": str(e)}
    finally:
        if machine:
            os.fchdir(ROOT)
            os.chroot(".")


def main():
    # A program that a function runs must not read the requests.
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    for name in function_names():
        REPOSITORY.load_func(name)  # nothing can be imported once in a machine
    for line in requests:
        print(json.dumps(answer(json.loads(line))), flush=True)


main()

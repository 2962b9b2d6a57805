"""Asks Debian's TuneD what its dynamic tuning decides.

Reads one JSON object a line: the plug-in, its options and the samples that its
monitor would give. Answers with what had been set after each sample. The
plug-ins are TuneD's own; only what they read and write is replaced.
"""
import json
import os
import sys

from tuned.plugins import plugin_cpu, plugin_disk, plugin_eeepc_she, plugin_net
from tuned.utils import nettool


class Anything:
    pass


class Monitor:
    load = None

    def get_device_load(self, device):
        return self.load

    def get_load(self):
        return {"system": self.load}


class Commands:
    """Stands for the programs and files that a plug-in uses."""

    def __init__(self):
        self.state = {}
        self.asleep = False

    def execute(self, argv, **_):
        if argv[1] == "-C":
            return 0, " drive state is:  %s\n" % ("standby" if self.asleep else "active/idle")
        self.state[argv[1][:2]] = argv[1][2:]
        return 0, ""

    def write_to_file(self, name, text):
        self.state["file"] = text
        return True


class Card:
    def __init__(self, speed, state):
        self.speed, self.state = speed, state

    def get_max_speed(self):
        return self.speed

    def set_speed(self, speed):
        self.state["speed"] = "slow"

    def set_max_speed(self):
        self.state["speed"] = "full"


def make(question):
    kind = question["plugin"]
    cls = {"disk": plugin_disk.DiskPlugin, "net": plugin_net.NetTuningPlugin, "cpu": plugin_cpu.CPULatencyPlugin,
           "eeepc_she": plugin_eeepc_she.EeePCSHEPlugin}[kind]
    p = cls.__new__(cls)
    cmd = Commands()
    instance = Anything()
    instance._load_monitor = Monitor()
    instance.options = cls._get_config_options() if kind in ("cpu", "eeepc_she") else {}
    instance.options.update(question.get("options") or {})
    if kind == "disk":
        # The constants are those that its constructor sets; that one wants a
        # whole daemon around it.
        saved = plugin_disk.hotplug.Plugin.__init__
        plugin_disk.hotplug.Plugin.__init__ = lambda self, *a, **k: None
        cls.__init__(p)
        plugin_disk.hotplug.Plugin.__init__ = saved
        p._hdparm_apm_devices = {"sda"}
        p._apm_errcnt = p._spindown_errcnt = 0
        instance._stats, instance._idle, instance._spindown_change_delayed = {}, {}, {}
    elif kind == "net":
        saved = plugin_net.hotplug.Plugin.__init__
        plugin_net.hotplug.Plugin.__init__ = lambda self, *a, **k: None
        cls.__init__(p)
        plugin_net.hotplug.Plugin.__init__ = saved
        plugin_net.ethcard = nettool.ethcard
        if question.get("speed"):
            plugin_net.ethcard = lambda device: Card(question["speed"], cmd.state)
        instance._stats, instance._idle = {}, {}
    elif kind == "cpu":
        instance._first_instance, instance._first_device = True, "sda"
        p._has_pm_qos, p._latency = True, None
        p._cpu_latency_fd = os.open("/dev/null", os.O_WRONLY)
    else:
        instance._she_mode = None
        p._control_file = "file"
    p._cmd = cmd
    return p, instance, cmd


for line in sys.stdin:
    question = json.loads(line)
    answer = {"states": []}
    try:
        p, instance, cmd = make(question)
        for sample in question["samples"]:
            cmd.asleep = bool(sample.get("asleep"))
            instance._load_monitor.load = sample["load"]
            p._instance_update_dynamic(instance, "sda")
            if question["plugin"] == "cpu":
                cmd.state["latency"] = str(p._latency)
            answer["states"].append(dict(cmd.state))
    except Exception as e:
        answer["raised"] = type(e).__name__
    print(json.dumps(answer), flush=True)

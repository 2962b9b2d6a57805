# SPDX-License-Identifier: Apache-2.0
"""Runs fettle on the managed machine, and turns its JSON and its exit codes into results."""

import json

COMMON = {
    "executable": {"type": "str", "default": "fettle"},
    "state_dir": {"type": "path"},
}
WRITES = dict(COMMON, reason={"type": "str", "default": "ansible"})
TUNES = dict(
    WRITES,
    profile_dirs={"type": "list", "elements": "path", "default": []},
    persist={"type": "bool", "default": True},
    take_over={"type": "bool", "default": False},
    atomic={"type": "bool", "default": False},
)

# What an exit code other than 0 means, as in the manual. All of them are failures, unless a
# module expects one.
CODES = {
    1: "failed, or nothing could be determined",
    2: "wrong usage",
    3: "a gate was not met",
    4: "refused by a safety check",
    5: "failed; all values were restored",
    6: "failed, and some values could not be restored",
    7: "applied in part: some values were rejected",
    75: "another transaction of fettle is running",
    130: "interrupted; all values were restored",
}


class Fettle:
    """The program on this machine, called for a module."""

    def __init__(self, module):
        self.module = module
        self.path = module.get_bin_path(module.params["executable"], required=True)

    def run(self, verb, args=(), expected=(0,)):
        """Run a verb and return its JSON document. An unexpected exit code ends the module."""
        argv = [self.path, verb, "--output", "json"]
        if self.module.params["state_dir"]:
            argv += ["--state-dir", self.module.params["state_dir"]]
        for directory in self.module.params.get("profile_dirs") or []:
            argv += ["--profile-dir", directory]
        code, out, err = self.module.run_command(argv + list(args))
        try:
            document = json.loads(out)
        except ValueError:
            document = {}
        if code not in expected or not document:
            messages = document.get("messages") or err.splitlines() or ["no output"]
            self.module.fail_json(
                msg="fettle %s: %s (%s)" % (verb, "; ".join(messages), CODES.get(code, "exit code %d" % code)),
                rc=code,
                messages=messages,
                settings=steps(document.get("plan") or {}),
                cmd=argv + list(args),
            )
        return document

    def reason(self):
        return ["--reason", self.module.params["reason"]]

    def reboot_required(self, plan=None):
        """Whether a value waits for a reboot, or would after the plan."""
        if plan and any(v["reboot"] for v in steps(plan) if v["written"]):
            return True
        return self.run("verify", expected=(0, 1, 3)).get("counts", {}).get("needs-reboot", 0) > 0

    def tune(self, selection):
        """Put a selection in force, and end the module. The plan of fettle diff decides."""
        module, params = self.module, self.module.params
        plan = self.run("diff", [a for a in selection if a != "--auto"])
        changes = [v for v in steps(plan) if v["written"]]
        persist = params["persist"] and not self.run("status").get("persistent", False)
        result = {
            "changed": bool(changes) or not plan.get("in_force", False) or persist,
            "settings": steps(plan),
            "profiles": plan.get("profiles", []),
            "diff": difference(changes),
        }
        tuned = {}
        if result["changed"] and not module.check_mode:
            args = list(selection) + self.reason()
            for option, flag in (("persist", "--persist"), ("take_over", "--take-over"), ("atomic", "--atomic")):
                if params[option]:
                    args.append(flag)
            tuned = self.run("tune", args)
            result["transaction"] = tuned.get("transaction", 0)
            result["settings"] = steps(tuned["plan"])
        result["reboot_required"] = self.reboot_required(plan if module.check_mode else None)
        for message in unwritten(tuned.get("plan", plan)):
            module.warn(message)
        module.exit_json(**result)

    def restore(self, transactions=()):
        """Undo transactions, or everything without any, and end the module."""
        module, numbers = self.module, [str(t) for t in transactions]
        undone = self.run("undo", ["--dry-run"] + numbers)
        result = {"changed": bool(undone["undoes"])}
        if result["changed"] and not module.check_mode:
            undone = self.run("undo", numbers + self.reason())
            result["transaction"] = undone.get("transaction", 0)
        remains = {v["setting"]: v["why"] for v in undone.get("remains", [])}
        for name, why in remains.items():
            module.warn("%s: %s" % (name, why))
        result["settings"] = [
            {
                "setting": v["setting"],
                "before": text(v["found"]),
                "after": text(v["to"]),
                "written": True,
                "verdict": v["state"],
                "why": v.get("why", remains.get(v["setting"], "")),
                "reboot": v["setting"] in remains,
            }
            for v in undone["values"]
            if v["state"] == "restored" and v["found"] != v["to"]
        ]
        result["diff"] = difference(result["settings"])
        result["reboot_required"] = bool(remains) or self.reboot_required()
        module.exit_json(**result)


def text(value):
    """The text of a value: fettle has null for an absent one, and an object for a whole file."""
    if isinstance(value, dict):
        return value.get("text", value.get("base64"))
    return value


def steps(plan):
    """The steps of a plan, as modules return them."""
    return [
        {
            "setting": step.get("named") or step["setting"],
            "before": text(step.get("before")),
            "after": text(step.get("want")),
            "written": step["action"] in ("write", "release"),
            "verdict": step["verdict"],
            "why": step.get("why", ""),
            "reboot": step.get("lifetime") == "reboot",
        }
        for step in plan.get("steps", [])
    ]


def unwritten(plan):
    """Messages about saved settings that fettle does not write, such as a misspelled sysctl."""
    for step in plan.get("steps", []):
        if step["action"] == "none" and "with" not in step and "/kernel_settings/" in step["reason"].get("file", ""):
            yield "%s was not written: %s: %s" % (step.get("named") or step["setting"], step["verdict"], step.get("why", ""))


def difference(changes):
    """The values before and after, as --diff prints them."""

    def lines(key):
        return "".join("%s = %s\n" % (v["setting"], "(absent)" if v[key] is None else v[key]) for v in changes)

    return {"before": lines("before"), "after": lines("after"), "before_header": "values", "after_header": "values"}

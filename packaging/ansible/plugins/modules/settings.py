#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: settings
short_description: Keep single settings on top of all profiles
version_added: 0.1.0
description:
  - Keeps settings in the profile C(kernel_settings), which stays on top of the profiles that are in force, as
    C(fettle tune --save) does. Settings of earlier runs stay.
  - A setting that is removed gets the value that it would have without it, from a profile or from before fettle.
  - A file in C(/etc/sysctl.d) that sets the same sysctl wins. The module then warns.
attributes:
  check_mode:
    support: full
    description: Runs C(fettle diff), which changes nothing.
  diff_mode:
    support: full
    description: Shows each value before and after.
options:
  settings:
    description: Settings. If a name occurs twice, the last one counts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - A sysctl (C(vm.swappiness)), a path below C(/sys), or an option of a plug-in
            (C(option:vm/transparent_hugepages)).
        type: str
        required: true
      value:
        description: Value. A boolean is refused, because YAML reads C(on) and C(no) as booleans. Quote them.
        type: raw
      state:
        description: V(absent) removes the setting and restores its value. So does a missing value.
        type: str
        choices: [present, absent]
  replace:
    description:
      - Plug-ins, such as V(sysctl), V(sysfs) or V(vm), whose settings of earlier runs are removed unless O(settings)
        has them. V(all) removes those of every plug-in.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(absent) removes O(settings), or without O(settings) all that are kept.
      - If nothing is kept, nothing is changed.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - fettle.tuning.common
  - fettle.tuning.common.writes
  - fettle.tuning.common.tunes
"""

EXAMPLES = r"""
- name: Two settings
  fettle.tuning.settings:
    settings:
      - name: vm.swappiness
        value: 10
      - name: /sys/kernel/mm/ksm/run
        value: 0

- name: Exactly these sysctls
  fettle.tuning.settings:
    replace: [sysctl]
    settings:
      - name: kernel.threads-max
        value: 30000

- name: Restore the value of one
  fettle.tuning.settings:
    settings:
      - name: kernel.threads-max
        state: absent
"""

RETURN = r"""
profiles:
  description: Profiles in force after the change.
  returned: success
  type: list
  elements: str
transaction:
  description: Number of the transaction, for C(fettle undo).
  returned: if changed, outside of check mode
  type: int
reboot_required:
  description: Whether a value takes effect at the next boot.
  returned: success
  type: bool
settings:
  description: The settings of the plan, written or not.
  returned: success
  type: list
  elements: dict
  contains:
    setting:
      description: Name of the setting.
      type: str
      sample: sysctl:vm.swappiness
    before:
      description: Value before. It is null if the setting did not exist or could not be read.
      type: str
    after:
      description: Requested value. It is null if the setting is removed.
      type: str
    written:
      description: Whether it is written, or would be in check mode.
      type: bool
    reboot:
      description: Whether it takes effect at the next boot.
      type: bool
    verdict:
      description: Verdict of fettle, such as V(ok), V(unsupported) or V(overridden).
      type: str
    why:
      description: Reason for the verdict.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import TUNES, Fettle


def arguments(module):
    """The arguments of fettle for the requested change."""
    params = module.params
    args = ["--save"]
    for name, setting in {s["name"]: s for s in params["settings"]}.items():
        if "absent" in (params["state"], setting["state"]) or (setting["value"] is None and setting["state"] is None):
            args += ["--unset", name]
            continue
        if setting["value"] is None or isinstance(setting["value"], (bool, dict, list)):
            module.fail_json(msg="%s: the value %r is not a text or a number; quote it" % (name, setting["value"]))
        args += ["--set", "%s=%s" % (name, setting["value"])]
    replace = params["replace"]
    if params["state"] == "absent" and not params["settings"]:
        replace = ["all"]
    for plugin in replace:
        args += ["--replace", plugin]
    return args


def kept(profiles):
    """Whether settings are kept, by fettle with these profiles in force or by linux-system-roles."""
    files = ("/etc/tuned/profiles/kernel_settings/tuned.conf", "/etc/tuned/kernel_settings/tuned.conf")
    return "kernel_settings" in profiles or any(os.path.exists(f) for f in files)


def main():
    module = AnsibleModule(
        argument_spec=dict(
            TUNES,
            settings={
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "value": {"type": "raw"},
                    "state": {"type": "str", "choices": ["present", "absent"]},
                },
            },
            replace={"type": "list", "elements": "str", "default": []},
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        ),
        supports_check_mode=True,
    )
    fettle, change = Fettle(module), arguments(module)
    profiles = fettle.run("status")["profiles"]
    if "--set" not in change and not kept(profiles):
        module.exit_json(changed=False, profiles=profiles, settings=[], reboot_required=fettle.reboot_required())
    fettle.tune(change)


if __name__ == "__main__":
    main()

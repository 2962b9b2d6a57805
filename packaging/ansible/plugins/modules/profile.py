#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: profile
short_description: Put tuning profiles in force, or restore all values
version_added: 0.1.0
description:
  - Puts profiles in force, as C(fettle tune) does. Only values that differ are written.
  - Settings of the module M(fettle.tuning.settings) stay on top of the profiles.
attributes:
  check_mode:
    support: full
    description: Runs C(fettle diff) or C(fettle undo --dry-run), which change nothing.
  diff_mode:
    support: full
    description: Shows each value before and after.
options:
  name:
    description: Profiles. Later ones override earlier ones.
    type: list
    elements: str
    aliases: [names]
  recommended:
    description: Put the profile in force that fettle recommends for the machine.
    type: bool
    default: false
  state:
    description:
      - V(present) puts the profiles in force.
      - V(absent) restores every value that fettle has changed on the machine, those of other modules of this
        collection included, and starts a tuner again that fettle had stopped.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - fettle.tuning.common
  - fettle.tuning.common.writes
  - fettle.tuning.common.tunes
"""

EXAMPLES = r"""
- name: Tune a guest
  fettle.tuning.profile:
    name: virtual-guest

- name: Let the machine choose, and replace TuneD
  fettle.tuning.profile:
    recommended: true
    take_over: true

- name: Restore all values
  fettle.tuning.profile:
    state: absent
"""

RETURN = r"""
profiles:
  description: Profiles in force after the change.
  returned: if O(state=present)
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
  description: The settings of the plan, written or not. An undo lists only those that it restores.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import TUNES, Fettle


def main():
    module = AnsibleModule(
        argument_spec=dict(
            TUNES,
            name={"type": "list", "elements": "str", "aliases": ["names"]},
            recommended={"type": "bool", "default": False},
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        ),
        supports_check_mode=True,
    )
    fettle = Fettle(module)
    if module.params["state"] == "absent":
        fettle.restore()
    if bool(module.params["name"]) == module.params["recommended"]:
        module.fail_json(msg="state=present needs either name or recommended")
    fettle.tune(module.params["name"] or ["--auto"])


if __name__ == "__main__":
    main()
